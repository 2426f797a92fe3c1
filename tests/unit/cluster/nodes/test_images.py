from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.nodes.images import Images
from extender_service.kube.types.core import ContainerImage


def image(*names: str, size: int = 1) -> ContainerImage:
    return ContainerImage(names, size)


def rows(images: Images, name: str) -> list[int]:
    found = images.find(name)
    return [] if found is None else [row for row, has in enumerate(found.on_rows(70)) if has]


def size(images: Images, name: str) -> int:
    found = images.find(name)
    assert found is not None
    return found.size_bytes


def test_an_image_is_found_by_each_of_its_names() -> None:
    images = Images()
    images.set(3, (image("web:1", "web@sha256:0", size=5),))
    images.set(69, (image("web:1", size=5),))
    assert rows(images, "web:1") == [3, 69]
    assert rows(images, "web@sha256:0") == [3]
    assert size(images, "web@sha256:0") == 5
    assert images.find("db:1") is None


def test_the_first_size_counts_while_some_node_has_the_image() -> None:
    images = Images()
    images.set(0, (image("web:1", size=5),))
    images.set(1, (image("web:1", size=7),))
    assert size(images, "web:1") == 5
    images.set(0, ())
    assert (size(images, "web:1"), rows(images, "web:1")) == (5, [1])
    images.set(1, ())
    images.set(1, (image("web:1", size=7),))
    assert size(images, "web:1") == 7


def test_the_only_node_that_has_an_image_may_correct_its_size() -> None:
    images = Images()
    images.set(0, (image("web:1", size=5),))
    images.set(0, (image("web:1", size=6),))
    assert size(images, "web:1") == 6


def test_a_name_that_comes_twice_counts_once() -> None:
    images = Images()
    images.set(0, (image("web:1", size=5), image("web:1", size=9)))
    found = images.find("web:1")
    assert found is not None
    assert (found.size_bytes, found.node_count) == (5, 1)
    images.set(0, ())
    assert len(images) == 0


def test_a_copy_changes_alone() -> None:
    images = Images()
    images.set(0, (image("web:1"),))
    twin = images.copy()
    twin.set(1, (image("web:1"),))
    twin.set(0, (image("db:1"),))
    assert (rows(images, "web:1"), rows(twin, "web:1")) == ([0], [1])
    assert images.find("db:1") is None


def test_names_are_kept_once_for_all_nodes() -> None:
    images = Images()
    names = ["registry.example.com/" + "web" for _ in range(2)]
    for row, name in enumerate(names):
        images.set(row, (image(name),))
    kept = [held[0].names[0] for held in images._by_row.values()]
    assert kept[0] is kept[1]


def test_there_is_an_answer_for_each_row() -> None:
    images = Images()
    images.set(7, (image("web:1"),))
    found = images.find("web:1")
    assert found is not None
    for capacity in (8, 9, 64, 70):
        assert found.on_rows(capacity).tolist() == [row == 7 for row in range(capacity)]


def test_it_is_told_whether_the_images_of_a_row_are_others() -> None:
    images = Images()
    assert images.set(0, (image("web:1", size=5),))
    assert not images.set(0, (image("web:1", size=5),))
    assert images.set(0, (image("web:1", size=6),))
    assert images.set(0, ())
    assert not images.set(0, ())


listed = st.builds(
    ContainerImage, st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple), st.integers(1, 3)
)


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(listed, max_size=3).map(tuple)), max_size=20))
def test_names_have_the_rows_that_list_them_and_the_first_size_that_one_of_them_told(
    steps: list[tuple[int, tuple[ContainerImage, ...]]],
) -> None:
    images = Images()
    by_row: dict[int, tuple[ContainerImage, ...]] = {}
    sizes: dict[str, int] = {}
    for row, of_row in steps:
        if not images.set(row, of_row):
            continue
        by_row.pop(row, None)
        sizes = {name: size for name, size in sizes.items() if any(name in i.names for i in chain(*by_row.values()))}
        by_row[row] = of_row
        for told in of_row:
            for name in told.names:
                sizes.setdefault(name, told.size_bytes)
        assert len(images) == len(sizes)
        for name in "abc":
            having = [row for row in range(4) if any(name in told.names for told in by_row.get(row, ()))]
            assert rows(images, name) == having
            if having:
                assert size(images, name) == sizes[name]
