import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.kube.types.core import (
    Container,
    ContainerImage,
    ImageSource,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Volume,
)
from extender_service.plugins.image_locality import ImageLocality, normalized
from tests.support.clusters.volume_worlds import handle_of, storage_cluster

MEBIBYTE = 1024 * 1024


def node(name: str, *images: tuple[str, int]) -> Node:
    return Node(
        ObjectMeta(name=name),
        status=NodeStatus({}, tuple(ContainerImage((image,), size * MEBIBYTE) for image, size in images)),
    )


def scores(cluster: Cluster, *images: str, init: tuple[str, ...] = ()) -> list[int]:
    spec = PodSpec(
        containers=tuple(Container(image=image) for image in images),
        init_containers=tuple(Container(image=image) for image in init),
    )
    pod = Pod(ObjectMeta(name="p"), spec)
    found: list[int] = ImageLocality(None, handle_of(cluster)).score(CycleState(pod), pod, cluster.view(None)).tolist()
    return found


def test_the_more_of_the_images_is_there_the_better() -> None:
    # Half of the nodes have each image, so it counts for half its size.
    cluster = storage_cluster(
        [
            node("both", ("web:1", 600), ("db:1", 1000)),
            node("one", ("web:1", 600)),
            node("none"),
            node("db", ("db:1", 1)),
        ]
    )
    assert scores(cluster, "web:1", "db:1") == [39, 14, 0, 24]


def test_an_init_container_counts_as_much() -> None:
    cluster = storage_cluster([node("a", ("web:1", 500))])
    assert scores(cluster, "web:1") == [48]
    assert scores(cluster, init=("web:1",)) == [48]


@pytest.mark.parametrize(("minor", "expected"), [(35, [48]), (36, [100]), (37, [74])])
def test_an_image_that_is_mounted_as_a_volume_counts_as_much_since_1_36(minor: int, expected: list[int]) -> None:
    cluster = Cluster(rules_of(minor))
    cluster.apply_node(node("a", ("web:1", 500), ("models:latest", 1000)))
    volumes = (Volume(image=ImageSource("models")), Volume(name="other"))
    pod = Pod(ObjectMeta(name="p"), PodSpec(containers=(Container(image="web:1"),), volumes=volumes))
    plugin = ImageLocality(None, handle_of(cluster))
    assert plugin.score(CycleState(pod), pod, cluster.view(None)).tolist() == expected


def test_too_little_to_matter_and_more_than_enough() -> None:
    cluster = storage_cluster([node("a", ("small:1", 22), ("large:1", 5000))])
    assert scores(cluster, "small:1") == [0]
    assert scores(cluster, "large:1") == [100]


def test_a_pod_without_containers_or_with_unknown_images_prefers_nothing() -> None:
    cluster = storage_cluster([node("a", ("web:1", 500)), node("b")])
    assert scores(cluster) == [0, 0]
    assert scores(cluster, "other:1") == [0, 0]


def test_a_size_that_rounds_to_more_than_int64_holds_counts_as_none() -> None:
    image = ContainerImage(("web:1",), 2**63 - 1)
    nodes = [Node(ObjectMeta(name=name), status=NodeStatus({}, (image,))) for name in ("a", "b")]
    assert scores(storage_cluster(nodes), "web:1") == [0, 0]
    assert scores(storage_cluster([*nodes, node("c")]), "web:1") == [100, 100, 0]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("web", "web:latest"),
        ("web:1", "web:1"),
        ("registry:5000/web", "registry:5000/web:latest"),
        ("registry:5000/web:1", "registry:5000/web:1"),
        ("web@sha256:0123", "web@sha256:0123"),
        ("", ":latest"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(written: str, name: str) -> None:
    assert normalized(written) == name
