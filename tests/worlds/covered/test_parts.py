"""A file that has moved does not leave its part in silence."""

from tests.worlds.covered.parts import PACKAGE, PARTS


def test_each_part_names_files_of_the_package() -> None:
    paths = [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")]
    beginnings = [beginning for of_part in PARTS.values() for beginning in of_part]
    assert [beginning for beginning in beginnings if not any(path.startswith(beginning) for path in paths)] == []
