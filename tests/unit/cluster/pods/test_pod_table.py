import numpy as np
import pytest
from msgspec import structs

from extender_service.cluster.amounts.dimensions import (
    CPU_MILLI,
    MEMORY_BYTES,
    NONZERO_CPU_MILLI,
    NONZERO_MEMORY_BYTES,
    POD_COUNT,
    Dimensions,
)
from extender_service.cluster.amounts.requests import DEFAULT_CPU_MILLI, DEFAULT_MEMORY_BYTES
from extender_service.cluster.pods.pod_entries import NOT_STARTED, PodEntry, pod_entry
from extender_service.cluster.pods.pod_table import NO_ROW, PodTable
from extender_service.cluster.pods.running_terms import RunningTerms
from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceList,
    WeightedPodAffinityTerm,
)
from tests.support.memory import MIB, kept_bytes
from tests.support.objects import in_group, make_pod

GPU = "nvidia.com/gpu"


def entry(pod: Pod) -> PodEntry:
    return pod_entry(pod, pod.metadata.uid, pod.spec.node_name)


def add(pods: PodTable, pod: Pod, row: int = NO_ROW) -> int:
    return pods.add(entry(pod), row)


def test_a_slot_tells_who_a_pod_is_and_what_it_takes() -> None:
    pods = PodTable(Dimensions())
    slot = add(pods, make_pod("web", "a", requests={"cpu": "1", "memory": "1Ki"}, ports=[80], nominated="b"))
    facts = pods[slot]
    assert (facts.key, facts.uid, facts.node_name) == (("default", "web"), "uid-of-web", "a")
    assert facts.nominated_node_name == "b"
    amounts = pods.amounts_of(slot)
    assert amounts[[CPU_MILLI, MEMORY_BYTES, POD_COUNT]].tolist() == [1000, 1024, 1]
    assert amounts[[NONZERO_CPU_MILLI, NONZERO_MEMORY_BYTES]].tolist() == [1000, 1024]
    assert pods.ports_of(slot) == {("0.0.0.0", "TCP", 80)}
    assert pods.row[slot] == NO_ROW


def test_a_pod_without_requests_weighs_only_in_scoring() -> None:
    pods = PodTable(Dimensions())
    amounts = pods.amounts_of(add(pods, make_pod("web")))
    assert amounts[[CPU_MILLI, MEMORY_BYTES, POD_COUNT]].tolist() == [0, 0, 1]
    assert amounts[[NONZERO_CPU_MILLI, NONZERO_MEMORY_BYTES]].tolist() == [DEFAULT_CPU_MILLI, DEFAULT_MEMORY_BYTES]


def test_pods_that_take_the_same_share_a_number() -> None:
    pods = PodTable(Dimensions())
    first, second = (add(pods, make_pod(name, requests={"cpu": "1"}, ports=[80])) for name in ("a", "b"))
    third = add(pods, make_pod("c", requests={"cpu": "2"}))
    assert pods.requests[first] == pods.requests[second] != pods.requests[third]
    assert (len(pods.request_sets), len(pods.port_sets)) == (2, 2)


def test_requests_written_differently_are_the_same() -> None:
    pods = PodTable(Dimensions())
    lists: list[ResourceList] = [
        {"cpu": "1", "memory": "1Ki"},
        {"cpu": "1000m", "memory": 1024},
        {"memory": "1024", "cpu": 1.0},
    ]
    slots = [add(pods, make_pod(str(number), requests=requests)) for number, requests in enumerate(lists)]
    assert len({int(pods.requests[slot]) for slot in slots}) == 1


def test_slots_are_reused_and_nothing_stays_of_a_pod_that_goes() -> None:
    pods = PodTable(Dimensions())
    slot = add(pods, make_pod("web", requests={"cpu": "1", GPU: "1"}, ports=[80]))
    assert len(pods) == 1
    pods.remove(slot)
    assert (len(pods), len(pods.request_sets), len(pods.port_sets), pods.unoffered_count) == (0, 0, 0, 0)
    assert add(pods, make_pod("db")) == slot
    assert pods.amounts_of(slot)[CPU_MILLI] == 0


def offer(pods: PodTable, resource: str) -> int:
    """Let a node offer a resource; returns its dimension."""
    dimension = pods.dimensions.hold(resource)
    pods.give_dimension(resource, dimension)
    return dimension


def test_what_pods_request_has_a_dimension_while_a_node_offers_it() -> None:
    pods = PodTable(Dimensions())
    before = add(pods, make_pod("before", requests={"cpu": "1", GPU: "8"}))
    dimension = offer(pods, GPU)
    during = add(pods, make_pod("during", requests={GPU: "4"}))
    assert [pods.amounts_of(slot)[dimension] for slot in (before, during)] == [8, 4]
    pods.dimensions.release(GPU)
    pods.take_dimension(GPU, dimension)
    assert not pods.amounts[:, dimension].any()
    pods.remove(before)
    assert offer(pods, GPU) == dimension
    assert pods.amounts_of(during)[dimension] == pods.amounts[:, dimension].sum() == 4


def test_a_resource_that_comes_in_the_place_of_another_shows_none_of_its_amounts() -> None:
    pods = PodTable(Dimensions())
    dimension = offer(pods, GPU)
    gpu = add(pods, make_pod("gpu", requests={GPU: "8"}))
    fpga = add(pods, make_pod("fpga", requests={"example.com/fpga": "2"}))
    pods.dimensions.release(GPU)
    pods.take_dimension(GPU, dimension)
    assert offer(pods, "example.com/fpga") == dimension
    assert [pods.amounts_of(slot)[dimension] for slot in (gpu, fpga)] == [0, 2]


def test_resources_that_pods_make_up_take_no_column() -> None:
    pods = PodTable(Dimensions())
    made_up: ResourceList = {f"example.com/{number}": "1" for number in range(5000)}
    slot = add(pods, make_pod("hostile", "a", requests=made_up), row=0)
    assert pods.amounts.shape == PodTable(Dimensions()).amounts.shape
    by_row = np.zeros(2, np.int64)
    pods.add_requested_by_row("example.com/17", by_row)
    assert by_row.tolist() == [1, 0]
    pods.displace(slot)
    pods.remove(slot)
    assert pods.unoffered_count == 0


def test_a_malformed_quantity_changes_nothing() -> None:
    pods = PodTable(Dimensions())
    with pytest.raises(QuantityError):
        add(pods, make_pod("web", requests={"cpu": "lots"}))
    assert (len(pods), len(pods.request_sets)) == (0, 0)


def test_amounts_beyond_int64_do_not_stop_the_table() -> None:
    pods = PodTable(Dimensions())
    pod = make_pod("web", requests={"memory": "9E"})
    containers = pod.spec.containers * 2
    add(pods, Pod(pod.metadata, PodSpec(containers=containers, overhead={"memory": "9E"})))
    assert len(pods) == 1


def labelled(pod: Pod, app: str) -> Pod:
    return structs.replace(pod, metadata=structs.replace(pod.metadata, labels={"app": app}))


def test_a_pod_is_amended_while_it_takes_and_wants_the_same() -> None:
    pods = PodTable(Dimensions())
    slot = add(pods, labelled(make_pod("web", "a", requests={"cpu": "1"}, ports=[80]), "shop"))

    def is_amended_by(pod: Pod, app: str = "shop") -> bool:
        return pods.is_amended_by(slot, entry(labelled(pod, app)))

    assert is_amended_by(make_pod("web", "a", requests={"cpu": "1000m"}, ports=[80], phase="Running"))
    assert is_amended_by(make_pod("web", "a", requests={"cpu": "1"}, ports=[80], nominated="b"))
    assert not is_amended_by(make_pod("web", "a", requests={"cpu": "1"}, ports=[80]), app="bank")
    assert not is_amended_by(make_pod("web", "b", requests={"cpu": "1"}, ports=[80]))
    assert not is_amended_by(make_pod("web", "a", requests={"cpu": "2"}, ports=[80]))
    assert not is_amended_by(make_pod("web", "a", requests={"cpu": "1"}, ports=[81]))
    assert not is_amended_by(make_pod("web", "a", requests={"cpu": "1"}, ports=[80], uid="another"))


def test_a_pod_that_is_being_deleted_is_another_entry_until_it_is_known_to_be() -> None:
    pods = PodTable(Dimensions())
    pod = make_pod("web", "a")
    deleted = structs.replace(pod, metadata=structs.replace(pod.metadata, deletion_timestamp="2024-01-01T00:00:00Z"))
    slot = add(pods, pod)
    assert not pods.is_amended_by(slot, entry(deleted))
    slot = add(pods, deleted)
    assert pods.is_amended_by(slot, entry(deleted))
    assert not pods.is_amended_by(slot, entry(pod))


def near(app: str) -> PodAffinityTerm:
    return PodAffinityTerm("zone", LabelSelector({"app": app}))


def test_the_terms_of_pods_are_found_with_their_weights_while_these_are_on_a_row() -> None:
    pods = PodTable(Dimensions())
    affinity = Affinity(
        pod_affinity=PodAffinity((near("required"),), (WeightedPodAffinityTerm(5, near("preferred")),)),
        pod_anti_affinity=PodAffinity((near("forbidden"),), (WeightedPodAffinityTerm(7, near("avoided")),)),
    )
    pod = make_pod("web")

    def about(terms: RunningTerms, app: str) -> list[int | None]:
        return [counts.key.weight for counts in terms.about(LabelSet("default", {"app": app}), {})]

    add(pods, structs.replace(make_pod("pending"), spec=structs.replace(pod.spec, affinity=affinity)))
    assert (len(pods.affinity), len(pods.anti_affinity)) == (0, 0)
    slot = add(pods, structs.replace(pod, spec=structs.replace(pod.spec, affinity=affinity)), 3)
    assert about(pods.anti_affinity, "forbidden") == about(pods.affinity, "required") == [None]
    assert (about(pods.affinity, "preferred"), about(pods.affinity, "avoided")) == ([5], [-7])
    assert (len(pods.affinity), len(pods.anti_affinity)) == (3, 1)
    assert pods.displace(slot) == 3
    assert (len(pods.affinity), len(pods.anti_affinity)) == (0, 0)


def test_an_amended_pod_is_as_the_entry_says() -> None:
    pods = PodTable(Dimensions())
    slot = add(pods, make_pod("web", nominated="a"))
    assert (pods.priority[slot], pods.started[slot]) == (0, NOT_STARTED)
    later = structs.replace(
        make_pod("web"),
        spec=PodSpec(priority=7),
        status=PodStatus(nominated_node_name="b", start_time="1970-01-01T00:00:02Z"),
    )
    pods.amend(slot, entry(later))
    assert (pods[slot].nominated_node_name, pods.priority[slot], pods.started[slot]) == ("b", 7, 2_000_000)


def test_a_slot_that_is_used_again_is_in_a_group_only_if_its_new_pod_is() -> None:
    pods = PodTable(Dimensions())
    slot = add(pods, in_group(make_pod("worker")))
    assert pods.in_group[slot]
    pods.remove(slot)
    assert add(pods, make_pod("web")) == slot
    assert not pods.in_group[slot]


def test_the_pods_on_a_row_are_found() -> None:
    pods = PodTable(Dimensions())
    slots = [add(pods, make_pod(str(number))) for number in range(3)]
    pods.row[slots[0]] = pods.row[slots[2]] = 7
    assert pods.on_row(7) == [slots[0], slots[2]]
    assert pods.on_row(8) == []


def test_the_table_grows_past_its_first_capacity() -> None:
    pods = PodTable(Dimensions())
    slots = [
        add(pods, make_pod(str(number), requests={"cpu": f"{number}m", f"example.com/{number}": "1"}))
        for number in range(600)
    ]
    assert (len(pods), pods.unoffered_count) == (600, 600)
    assert [int(pods.amounts_of(slot)[CPU_MILLI]) for slot in slots] == list(range(600))
    assert all(pods.amounts_of(slot).sum() == 2 * n + 1 + DEFAULT_MEMORY_BYTES for n, slot in enumerate(slots))
    assert np.all(pods.row[slots] == NO_ROW)


def test_no_pod_is_on_a_row_because_there_is_room_for_more_pods() -> None:
    pods = PodTable(Dimensions())
    on_row = add(pods, make_pod("web"), 0)
    for number in range(300):
        add(pods, make_pod(str(number)))
    assert pods.on_row(0) == [on_row]


def test_of_pods_with_many_labels_that_are_gone_little_is_kept() -> None:
    pods = PodTable(Dimensions())

    def come_and_go() -> None:
        for number in range(80):
            pod = make_pod(f"pod-{number}")
            labels = {f"label-{number}-{index}": f"value-{number}-{index}" for index in range(4000)}
            slot = add(pods, structs.replace(pod, metadata=structs.replace(pod.metadata, labels=labels)), 0)
            pods.displace(slot)
            pods.remove(slot)

    assert kept_bytes(come_and_go) < 17 * MIB
