import pytest

from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.status import SKIP, Status, unresolvable
from extender_service.plugins.volume_zone import CONFLICT, Topology, VolumeZone, topologies_of
from tests.support.clusters.volume_worlds import handle_of, storage_cluster, verdicts
from tests.support.objects import make_node
from tests.support.storage_objects import make_claim, make_class, make_volume, with_claims

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


def judged(
    volume_labels: dict[str, str], node_labels: dict[str, dict[str, str]], *, with_pre_filter: bool = True
) -> dict[str, Status | None]:
    cluster = storage_cluster(
        [make_node(name, labels=labels) for name, labels in node_labels.items()],
        [make_claim("c", "v"), make_volume("v", labels=volume_labels)],
    )
    pod = with_claims("p", "c")
    plugin, state = VolumeZone(None, handle_of(cluster)), CycleState(pod)
    if with_pre_filter:
        assert plugin.pre_filter(state, pod) is None
    return verdicts(plugin, state, pod, cluster.view(None))


@pytest.mark.parametrize("with_pre_filter", [True, False])
def test_nodes_elsewhere_are_rejected(with_pre_filter: bool) -> None:
    nodes = {"here": {ZONE: "a"}, "there": {ZONE: "b"}, "unzoned": {"disk": "ssd"}, "regional": {REGION: "r"}}
    assert judged({ZONE: "a"}, nodes, with_pre_filter=with_pre_filter) == {
        "here": None,
        "there": CONFLICT,
        "unzoned": None,
        "regional": CONFLICT,
    }


def test_a_volume_may_be_in_several_zones() -> None:
    nodes = {"a": {ZONE: "a"}, "b": {ZONE: "b"}, "c": {ZONE: "c"}}
    assert judged({ZONE: "a__b"}, nodes) == {"a": None, "b": None, "c": CONFLICT}


def test_an_old_label_of_a_volume_is_looked_for_under_its_new_name_too() -> None:
    nodes = {
        "new": {ZONE: "a"},
        "old": {BETA_ZONE: "a"},
        "disagreeing": {BETA_ZONE: "b", ZONE: "a"},
    }
    assert judged({BETA_ZONE: "a"}, nodes) == {"new": None, "old": None, "disagreeing": CONFLICT}
    assert judged({ZONE: "a"}, {"old": {BETA_ZONE: "a"}}) == {"old": CONFLICT}


def test_a_malformed_label_says_nothing() -> None:
    assert list(topologies_of(make_volume("v", labels={ZONE: "a__", REGION: " r "}))) == [
        Topology(REGION, frozenset({"r"}))
    ]


@pytest.mark.parametrize(
    ("claim", "storage", "reason"),
    [
        ("nobody", [], 'persistentvolumeclaim "nobody" not found'),
        ("", [], "PersistentVolumeClaim had no name"),
        ("c", [make_claim("c", "v")], 'persistentvolume "v" not found'),
        ("c", [make_claim("c")], "PersistentVolumeClaim had no pv name and storageClass name"),
        ("c", [make_claim("c", class_name="x")], 'storageclass.storage.k8s.io "x" not found'),
        (
            "c",
            [make_claim("c", class_name="x"), make_class("x", mode=None)],
            'VolumeBindingMode not set for StorageClass "x"',
        ),
        (
            "c",
            [make_claim("c", class_name="x"), make_class("x", mode="Immediate")],
            "PersistentVolume had no name",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_rejects_the_pod(claim: str, storage: list[StorageObject], reason: str) -> None:
    cluster = storage_cluster([make_node("a")], storage)
    pod = with_claims("p", claim)
    plugin = VolumeZone(None, handle_of(cluster))
    assert plugin.pre_filter(CycleState(pod), pod) == unresolvable(reason)
    assert verdicts(plugin, CycleState(pod), pod, cluster.view(None)) == {"a": unresolvable(reason)}


def test_volumes_that_are_yet_to_be_made_or_say_nothing_are_skipped() -> None:
    cluster = storage_cluster(
        [make_node("a")],
        [make_claim("waiting", class_name="x"), make_class("x"), make_claim("c", "v"), make_volume("v")],
    )
    pod = with_claims("p", "waiting", "c")
    assert VolumeZone(None, handle_of(cluster)).pre_filter(CycleState(pod), pod) == SKIP
