import asyncio

import msgspec
import pytest
from msgspec import structs

from extender_service.cluster.amounts.dimensions import CPU_MILLI
from extender_service.cluster.pods.pod_counts import PodQuery
from extender_service.cluster.selection.label_sets import PodSelector
from extender_service.cluster.state.changes import Change
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.parsing.selectors import EVERYTHING
from extender_service.kube.types.core import Node, Pod
from extender_service.kube.types.keys import Key
from extender_service.kube.types.pods import pod_uid
from tests.support.objects import Undo, make_node, make_pod

GPU = "nvidia.com/gpu"


class Recorded(Cluster):
    """A cluster that notes what it would have woken waiting decisions for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Change(0)
        self.changes.notify = self._note  # type: ignore[method-assign]

    def _note(self, change: Change, key: Key) -> None:
        del key
        self.seen |= change

    def events_of_node(self, node: Node) -> Change:
        self.seen = Change(0)
        self.apply_node(node)
        return self.seen

    def events_of_pod(self, pod: Pod) -> Change:
        self.seen = Change(0)
        self.apply_pod(pod)
        return self.seen

    def expect(self, pod: Pod, node_name: str) -> None:
        self.placements.place(pod, pod_uid(pod), node_name)


@pytest.fixture
def cluster() -> Recorded:
    """An empty cluster that keeps track of its events."""
    return Recorded()


def requested(cluster: Cluster, node_name: str, resource: str = "cpu") -> int:
    view = cluster.view(cluster.nodes.rows_named([node_name]))
    assert view.exists.all()
    return int(view.requested(view.dimension(resource))[0])


def is_expected(cluster: Cluster, pod: Pod) -> bool:
    return cluster.placements.get(pod_uid(pod)) is not None


def healthy(status: str, at: int) -> Node:
    """A node whose GPUs were found healthy or not, at a second."""
    time = f"2026-01-01T00:00:{at:02}Z"
    condition = {"type": "GPUHealthy", "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time}
    return msgspec.convert({"metadata": {"name": "a"}, "status": {"conditions": [condition]}}, Node)


NOTHING = Change(0)
WEB = make_pod("web", requests={"cpu": "1"})
WEB_ON_A = make_pod("web", "a", requests={"cpu": "1"})


def test_nodes_are_known_by_name_in_the_order_of_their_rows(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        cluster.apply_node(make_node(name))
    cluster.remove_node("b")
    cluster.remove_node("b")
    assert (cluster.node_names(), cluster.node_count) == (["a", "c"], 2)
    cluster.apply_node(make_node("d"))
    assert cluster.node_names() == ["a", "d", "c"]


def test_a_pod_counts_on_its_node_until_it_is_removed(cluster: Cluster) -> None:
    cluster.apply_node(make_node("a"))
    cluster.apply_pod(WEB_ON_A)
    assert (requested(cluster, "a"), cluster.pod_count, cluster.pod_keys()) == (1000, 1, [("default", "web")])
    cluster.remove_pod(("default", "web"))
    cluster.remove_pod(("default", "web"))
    assert (requested(cluster, "a"), cluster.pod_count, cluster.pod_keys()) == (0, 0, [])
    assert cluster.pod("uid-of-web") is None


def test_a_pod_may_come_before_its_node(cluster: Cluster) -> None:
    cluster.apply_pod(WEB_ON_A)
    assert (cluster.node_count, cluster.node_names()) == (0, [])
    assert not cluster.nodes.is_node("a")
    cluster.apply_node(make_node("a"))
    assert requested(cluster, "a") == 1000


def test_a_node_may_go_and_come_back_while_pods_stay(cluster: Cluster) -> None:
    cluster.apply_node(make_node("a"))
    cluster.apply_pod(WEB_ON_A)
    cluster.remove_node("a")
    assert (cluster.node_names(), cluster.pod_count) == ([], 1)
    cluster.apply_pod(make_pod("db", "a", requests={"cpu": "2"}))
    cluster.apply_node(make_node("a"))
    assert requested(cluster, "a") == 3000


def test_the_row_of_a_node_that_went_is_reused_clean(cluster: Cluster) -> None:
    cluster.apply_node(make_node("a", {"cpu": "4", GPU: "8"}))
    cluster.apply_pod(make_pod("train", "a", requests={GPU: "4"}))
    cluster.remove_node("a")
    cluster.remove_pod(("default", "train"))
    cluster.apply_node(make_node("b", {"cpu": "4", "example.com/fpga": "1"}))
    assert cluster.nodes.size == 1
    assert requested(cluster, "b", "example.com/fpga") == requested(cluster, "b", "pods") == 0
    assert cluster.view(None).dimension(GPU) == -1


def test_a_pod_that_is_bound_starts_to_count(cluster: Cluster) -> None:
    cluster.apply_node(make_node("a"))
    cluster.apply_pod(WEB)
    facts = cluster.pod("uid-of-web")
    assert facts is not None
    assert (facts.node_name, requested(cluster, "a"), cluster.pod_count) == ("", 0, 1)
    cluster.apply_pod(WEB_ON_A)
    assert (requested(cluster, "a"), cluster.pod_count) == (1000, 1)


def test_a_pod_that_is_resized_counts_with_its_new_requests(cluster: Cluster) -> None:
    cluster.apply_node(make_node("a"))
    cluster.apply_pod(WEB_ON_A)
    cluster.apply_pod(make_pod("web", "a", requests={"cpu": "3"}))
    assert (requested(cluster, "a"), requested(cluster, "a", "pods")) == (3000, 1)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_counts_no_more(cluster: Cluster, phase: str) -> None:
    cluster.apply_node(make_node("a"))
    cluster.apply_pod(WEB_ON_A)
    cluster.apply_pod(make_pod("web", "a", requests={"cpu": "1"}, phase=phase))
    assert (requested(cluster, "a"), cluster.pod_count) == (0, 0)
    cluster.apply_pod(make_pod("job", "a", requests={"cpu": "1"}, phase=phase))
    assert (requested(cluster, "a"), cluster.pod_count) == (0, 0)


def test_a_pod_made_again_under_its_name_takes_the_place_of_the_old_one(cluster: Cluster) -> None:
    cluster.apply_node(make_node("a"))
    cluster.apply_node(make_node("b"))
    cluster.apply_pod(make_pod("web-0", "a", requests={"cpu": "1"}, uid="old"))
    cluster.apply_pod(make_pod("web-0", "b", requests={"cpu": "2"}, uid="new"))
    assert (requested(cluster, "a"), requested(cluster, "b"), cluster.pod_count) == (0, 2000, 1)
    assert cluster.pod("old") is None
    assert cluster.pod("new") is not None


def test_a_pod_without_a_uid_is_known_by_its_name(cluster: Cluster) -> None:
    cluster.apply_node(make_node("a"))
    pod = make_pod("web", "a", uid="", requests={"cpu": "1"})
    assert pod_uid(pod) == "default/web"
    cluster.apply_pod(pod)
    cluster.apply_pod(make_pod("web", "a", uid="", requests={"cpu": "2"}))
    assert (requested(cluster, "a"), cluster.pod_count) == (2000, 1)
    cluster.remove_pod(("default", "web"))
    assert cluster.pod("default/web") is None


def test_two_pods_that_claim_one_uid_as_a_cluster_file_may_have_them_both_count(cluster: Cluster) -> None:
    cluster.apply_node(make_node("a"))
    cluster.apply_pod(make_pod("web-0", "a", uid="same", requests={"cpu": "1"}))
    cluster.apply_pod(make_pod("web-1", "a", uid="same", requests={"cpu": "2"}))
    assert (requested(cluster, "a"), cluster.pod_count) == (3000, 2)
    cluster.remove_pod(("default", "web-1"))
    cluster.remove_pod(("default", "web-0"))
    assert (requested(cluster, "a"), cluster.pod_count) == (0, 0)


def test_malformed_quantities_change_nothing(cluster: Cluster) -> None:
    cluster.apply_node(make_node("a", {"cpu": "4"}))
    cluster.apply_pod(WEB_ON_A)
    with pytest.raises(QuantityError):
        cluster.apply_pod(make_pod("web", "a", requests={"cpu": "lots"}))
    with pytest.raises(QuantityError):
        cluster.apply_pod(make_pod("new", "new", requests={"cpu": "lots"}))
    with pytest.raises(QuantityError):
        cluster.apply_node(make_node("a", {"cpu": "lots"}))
    assert (requested(cluster, "a"), cluster.pod_count, cluster.node_count) == (1000, 1, 1)
    assert cluster.view(None).allocatable(CPU_MILLI).tolist() == [4000]


def test_pods_of_a_query_are_counted_where_they_run_and_where_they_are_expected(cluster: Recorded) -> None:
    cluster.apply_node(make_node("a"))
    for name, node_name in ("one", "a"), ("two", "a"), ("pending", ""), ("elsewhere", "unknown"):
        cluster.apply_pod(make_pod(name, node_name))
    cluster.expect(make_pod("next"), "a")

    in_default = PodQuery((PodSelector(frozenset({"default"}), EVERYTHING),))
    in_other = PodQuery((PodSelector(frozenset({"other"}), EVERYTHING),))

    assert cluster.count_pods(in_default) == 4
    assert cluster.count_pods(in_other) == 0


def test_pods_of_a_query_are_counted_on_each_node_in_its_own_world(cluster: Recorded) -> None:
    for name in ("a", "b"):
        cluster.apply_node(make_node(name))
    going = make_pod("going", "b")
    going = structs.replace(going, metadata=structs.replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    for pod in (make_pod("one", "a"), make_pod("pending"), make_pod("foreign", "a", namespace="other"), going):
        cluster.apply_pod(pod)
    cluster.expect(make_pod("next"), "a")
    one, pending, foreign, leaving = (cluster._slot_by_key[key] for key in cluster.pod_keys())

    every = PodQuery((PodSelector(frozenset({"default"}), EVERYTHING),))
    staying = PodQuery(every.selectors, with_terminating=False)
    nodes = cluster.view(cluster.nodes.rows_named(["b", "a"]))
    assert cluster.count_pods_on(nodes, every).tolist() == [1, 2]
    assert cluster.count_pods_on(nodes, staying).tolist() == [0, 2]

    moved = RowChanges([0, 1, 1, 1], [leaving, one, pending, foreign], [-1, -1, 1, -1])
    for query in (every, staying):
        assert cluster.count_pods_on(nodes.changed(moved), query).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("version", "is_known", "counts"),
    [
        ("7", False, False),
        ("6", False, False),
        ("5", False, True),  # the list is older than the pod
        ("", False, True),
        ("7", True, True),
    ],
)
def test_an_expected_pod_that_a_list_lacks_counts_no_more(
    cluster: Recorded, version: str, is_known: bool, counts: bool
) -> None:
    cluster.apply_node(make_node("a"))
    pod = structs.replace(WEB, metadata=structs.replace(WEB.metadata, resource_version="6"))
    if is_known:
        cluster.apply_pod(pod)
    cluster.expect(pod, "a")
    cluster.end_unlisted_placements(version)
    assert (is_expected(cluster, pod), requested(cluster, "a")) == (counts, 1000 if counts else 0)


def test_the_slot_of_a_pod_is_told_for_the_node_that_it_counts_on(cluster: Recorded) -> None:
    cluster.apply_node(make_node("a"))
    cluster.apply_node(make_node("b"))
    cluster.apply_pod(WEB)
    assert cluster.slot_on("uid-of-web", "a") is None
    cluster.expect(WEB, "b")
    expected = cluster.slot_on("uid-of-web", "b")
    assert expected is not None
    assert cluster.slot_on("uid-of-web", "a") is None
    cluster.apply_pod(WEB_ON_A)
    assert cluster.slot_on("uid-of-web", "a") not in (None, expected)
    assert cluster.slot_on("uid-of-web", "b") is None
    assert cluster.slot_on("uid-of-web", "never heard of") is None
    assert cluster.slot_on("never heard of", "a") is None


class TestPlacements:
    """Placements that are ahead of the watch."""

    @pytest.fixture(autouse=True)
    def two_nodes(self, cluster: Recorded) -> None:
        """Nodes a and b."""
        cluster.apply_node(make_node("a"))
        cluster.apply_node(make_node("b"))

    def test_an_expected_pod_counts_once_when_the_watch_shows_it_bound_there(self, cluster: Recorded) -> None:
        undone: list[str] = []
        cluster.apply_pod(WEB)
        cluster.placements.place(WEB, "uid-of-web", "a", Undo(lambda: undone.append("web")))
        assert requested(cluster, "a") == 1000
        cluster.apply_pod(WEB_ON_A)
        assert (requested(cluster, "a"), len(cluster.placements), undone) == (1000, 0, [])

    @pytest.mark.parametrize("is_known", [True, False])
    @pytest.mark.parametrize("assumed", [False, True])
    def test_there_is_nothing_to_catch_up_with_when_a_pod_is_bound_where_it_is_placed(
        self, cluster: Recorded, assumed: bool, is_known: bool
    ) -> None:
        undone: list[str] = []
        if is_known:
            cluster.apply_pod(WEB)
        undo = Undo(lambda: undone.append("web"))
        cluster.placements.place(WEB, "uid-of-web", "a", undo).assumed = assumed
        slot = cluster.slot_on("uid-of-web", "a")
        before = (cluster.nodes.amount_changes.count, cluster.pods.changes.count)
        assert cluster.events_of_pod(WEB_ON_A) == Change.POD_ADDED
        assert (cluster.nodes.amount_changes.count, cluster.pods.changes.count) == before
        assert (cluster.slot_on("uid-of-web", "a"), cluster.pod_count, len(cluster.pods)) == (slot, 1, 1)
        assert (requested(cluster, "a"), len(cluster.placements), undone) == (1000, 0, [])
        cluster.remove_pod(("default", "web"))
        assert (requested(cluster, "a"), cluster.pod_count, len(cluster.pods)) == (0, 0, 0)

    def test_a_pod_that_is_bound_where_it_is_placed_has_what_the_watch_says_else(self, cluster: Recorded) -> None:
        cluster.apply_pod(make_pod("web", requests={"cpu": "1"}, nominated="b"))
        cluster.placements.place(make_pod("web", requests={"cpu": "1"}, nominated="b"), "uid-of-web", "a")
        started = structs.replace(WEB_ON_A.status, start_time="1970-01-01T00:00:01Z")
        cluster.apply_pod(structs.replace(WEB_ON_A, spec=structs.replace(WEB_ON_A.spec, priority=7), status=started))
        slot = cluster.slot_on("uid-of-web", "a")
        assert slot is not None
        assert (cluster.pods.priority[slot], cluster.pods.started[slot]) == (7, 1_000_000)
        facts = cluster.pod("uid-of-web")
        assert facts is not None
        assert (facts.nominated_node_name, len(cluster.nominations)) == ("", 0)

    def test_a_pod_that_was_changed_before_it_was_bound_counts_as_it_is(self, cluster: Recorded) -> None:
        undone: list[str] = []
        cluster.placements.place(WEB, "uid-of-web", "a", Undo(lambda: undone.append("web")))
        cluster.apply_pod(make_pod("web", "a", requests={"cpu": "2"}))
        assert (requested(cluster, "a"), len(cluster.placements), len(cluster.pods), undone) == (2000, 0, 1, [])

    def test_a_pod_with_the_uid_of_another_that_is_expected_counts_by_its_own_name(self, cluster: Recorded) -> None:
        cluster.expect(WEB, "a")
        cluster.apply_pod(make_pod("impostor", "a", uid="uid-of-web", requests={"cpu": "1"}))
        assert (cluster.pod_keys(), requested(cluster, "a")) == ([("default", "impostor")], 1000)
        cluster.remove_pod(("default", "impostor"))
        assert (cluster.pod_keys(), requested(cluster, "a"), len(cluster.pods)) == ([], 0, 0)

    def test_a_pod_that_took_the_name_of_another_is_bound_where_it_is_placed(self, cluster: Recorded) -> None:
        cluster.apply_pod(make_pod("web", "b", uid="old", requests={"cpu": "1"}))
        cluster.expect(WEB, "a")
        assert cluster.events_of_pod(WEB_ON_A) == Change.POD_ADDED | Change.POD_REMOVED
        assert (requested(cluster, "a"), requested(cluster, "b"), len(cluster.pods)) == (1000, 0, 1)
        assert cluster.pod("old") is None

    def test_an_expected_pod_that_is_bound_elsewhere_counts_there(self, cluster: Recorded) -> None:
        undone: list[str] = []
        cluster.placements.place(WEB, "uid-of-web", "b", Undo(lambda: undone.append("web")))
        assert cluster.events_of_pod(WEB_ON_A) == Change.POD_ADDED | Change.POD_REMOVED
        assert (requested(cluster, "a"), requested(cluster, "b"), undone) == (1000, 0, ["web"])

    def test_dropping_a_placement_makes_room(self, cluster: Recorded) -> None:
        cluster.expect(WEB, "a")
        cluster.seen = NOTHING
        cluster.drop_placement("uid-of-web")
        assert (requested(cluster, "a"), cluster.seen) == (0, Change.POD_REMOVED)
        cluster.seen = NOTHING
        cluster.drop_placement("uid-of-web")
        assert cluster.seen is NOTHING

    def test_a_pending_pod_that_is_deleted_is_expected_no_more(self, cluster: Recorded) -> None:
        cluster.apply_pod(WEB)
        cluster.expect(WEB, "a")
        cluster.seen = NOTHING
        cluster.remove_pod(("default", "web"))
        assert (requested(cluster, "a"), is_expected(cluster, WEB)) == (0, False)
        assert cluster.seen == Change.POD_REMOVED | Change.PENDING_POD_REMOVED

    def test_an_assumed_pod_that_has_ended_before_the_watch_showed_it_counts_no_more(self, cluster: Recorded) -> None:
        cluster.placements.place(WEB, "uid-of-web", "a").assume()
        assert cluster.events_of_pod(make_pod("web", "a", phase="Succeeded")) == Change.POD_REMOVED
        assert (requested(cluster, "a"), len(cluster.placements)) == (0, 0)

    def test_an_assumed_pod_whose_name_another_pod_has_taken_counts_no_more(self, cluster: Recorded) -> None:
        cluster.apply_pod(make_pod("web-0", uid="old"))
        cluster.placements.place(make_pod("web-0", uid="old", requests={"cpu": "1"}), "old", "a").assume()
        assert cluster.events_of_pod(make_pod("web-0", uid="new")) == Change.POD_REMOVED
        assert (requested(cluster, "a"), len(cluster.placements)) == (0, 0)

    def test_a_placement_made_after_the_watch_showed_the_pod_bound_ends_when_it_is_shown_again(
        self, cluster: Recorded
    ) -> None:
        cluster.apply_pod(WEB_ON_A)
        cluster.placements.place(WEB, "uid-of-web", "a").assume()
        cluster.apply_pod(WEB_ON_A)
        assert (requested(cluster, "a"), len(cluster.placements)) == (1000, 0)

    def test_an_expected_pod_counts_on_a_node_that_goes_and_comes_back(self, cluster: Recorded) -> None:
        cluster.expect(WEB, "a")
        cluster.remove_node("a")
        cluster.apply_node(make_node("a"))
        assert requested(cluster, "a") == 1000
        cluster.remove_node("a")
        cluster.drop_placement("uid-of-web")
        assert "a" not in cluster.nodes.row_of


class TestEvents:
    """Changes that can turn a refusal into a fit wake those who wait, others do not."""

    def test_nodes_that_come_and_change(self, cluster: Recorded) -> None:
        assert cluster.events_of_node(make_node("a")) == Change.NODE_ADDED
        assert cluster.events_of_node(make_node("a", unschedulable=True)) == Change.NODE_UPDATED
        assert cluster.events_of_node(make_node("a", labels={"zone": "x"})) == Change.NODE_UPDATED
        assert cluster.events_of_node(make_node("a", {"cpu": "64"})) == Change.NODE_UPDATED

    def test_a_heartbeat_is_none(self, cluster: Recorded) -> None:
        cluster.apply_node(make_node("a", resource_version="1"))
        assert cluster.events_of_node(make_node("a", resource_version="2")) is NOTHING

    def test_a_condition_changes_with_its_status_and_not_with_its_heartbeat(self, cluster: Recorded) -> None:
        cluster.apply_node(healthy("True", at=0))
        version = cluster.version
        assert cluster.events_of_node(healthy("True", at=1)) is NOTHING
        assert cluster.version == version
        assert cluster.events_of_node(healthy("False", at=2)) == Change.NODE_UPDATED
        assert cluster.version != version

    def test_a_node_that_comes_after_its_pods_or_comes_back_is_added(self, cluster: Recorded) -> None:
        cluster.apply_pod(WEB_ON_A)
        assert cluster.events_of_node(make_node("a")) == Change.NODE_ADDED
        cluster.remove_node("a")
        assert cluster.events_of_node(make_node("a")) == Change.NODE_ADDED

    def test_pods_that_are_bound_and_go(self, cluster: Recorded) -> None:
        assert cluster.events_of_pod(WEB) is NOTHING
        assert cluster.events_of_pod(WEB_ON_A) == Change.POD_ADDED
        assert cluster.events_of_pod(make_pod("web", "a", requests={"cpu": "1"}, phase="Running")) is NOTHING
        assert cluster.events_of_pod(make_pod("web", "a", phase="Succeeded")) == Change.POD_REMOVED

    def test_a_pending_pod_that_goes_frees_no_room(self, cluster: Recorded) -> None:
        cluster.apply_pod(WEB)
        cluster.remove_pod(("default", "web"))
        assert cluster.seen == Change.PENDING_POD_REMOVED

    def test_a_pod_made_again_leaves_room_where_the_old_one_was(self, cluster: Recorded) -> None:
        cluster.apply_pod(make_pod("web-0", "a", uid="old"))
        assert cluster.events_of_pod(make_pod("web-0", uid="new")) == Change.POD_REMOVED

    def test_a_pod_that_shrinks_leaves_room(self, cluster: Recorded) -> None:
        cluster.apply_pod(WEB_ON_A)
        assert Change.POD_REMOVED in cluster.events_of_pod(make_pod("web", "a", requests={"cpu": "500m"}))


def test_waiting_decisions_are_woken() -> None:
    async def woken() -> bool:
        cluster = Cluster()
        waiting = asyncio.create_task(cluster.changes.wait(Change.NODE_ADDED, 5))
        await asyncio.sleep(0)
        cluster.apply_node(make_node("a"))
        return await waiting

    assert asyncio.run(woken())
