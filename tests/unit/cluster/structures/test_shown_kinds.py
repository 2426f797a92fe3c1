import pytest

from extender_service.cluster.structures.shown_kinds import HiddenKindError, ShownKinds


def test_a_kind_that_is_hidden_is_no_kind_without_objects() -> None:
    tables: ShownKinds[dict[str, int]] = ShownKinds({int: {"a": 1}, str: {}})
    assert (tables[int], tables[str]) == ({"a": 1}, {})
    with pytest.raises(
        HiddenKindError, match=r"^float objects are not watched: name the kind in the plugin's `reads`$"
    ):
        tables[float]
