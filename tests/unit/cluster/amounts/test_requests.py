from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.amounts.requests import (
    DEFAULT_CPU_MILLI,
    DEFAULT_MEMORY_BYTES,
    HostPort,
    PodRequests,
    host_ports,
    host_ports_with_sidecars,
    node_allocatable,
    pod_requests,
    request_rules,
    request_shape,
    scored_amounts,
    total_requests,
    whole_amount,
)
from extender_service.config.rules import rules_of
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Container, ContainerPort, PodResources, PodSpec, ResourceList
from tests.counted.bytecodes import executed
from tests.support.objects import make_container

GI = 2**30


def requests_of(
    *containers: Container, init: tuple[Container, ...] = (), overhead: ResourceList | None = None
) -> PodRequests:
    spec = PodSpec(containers=containers, init_containers=init, overhead=overhead or {})
    return pod_requests(request_shape(spec))


def amounts(
    *containers: Container, init: tuple[Container, ...] = (), overhead: ResourceList | None = None
) -> dict[str, int]:
    return dict(requests_of(*containers, init=init, overhead=overhead).amounts)


def sidecar(**requests: str) -> Container:
    return make_container({**requests}, restart_policy="Always")


def test_containers_run_together_so_their_requests_add_up() -> None:
    first = make_container({"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "1"})
    second = make_container({"cpu": "1", "ephemeral-storage": "2Gi", "nvidia.com/gpu": 2})
    assert amounts(first, second) == {
        "cpu": 1100,
        "memory": GI,
        "ephemeral-storage": 2 * GI,
        "nvidia.com/gpu": 3,
    }


def test_a_pod_that_requests_nothing_takes_nothing() -> None:
    assert amounts(make_container()) == {}


@pytest.mark.parametrize(("init_cpu", "pod_cpu"), [("200m", 500), ("2", 2000)])
def test_an_init_container_runs_alone_so_the_larger_of_it_and_the_containers_counts(
    init_cpu: str, pod_cpu: int
) -> None:
    containers = [make_container({"cpu": "250m"}), make_container({"cpu": "250m"})]
    init = (make_container({"cpu": init_cpu}), make_container({"cpu": "100m"}))
    assert amounts(*containers, init=init) == {"cpu": pod_cpu}


def test_an_init_container_may_request_what_no_container_does() -> None:
    assert amounts(make_container({"cpu": "1"}), init=(make_container({"example.com/fpga": "1"}),)) == {
        "cpu": 1000,
        "example.com/fpga": 1,
    }


def test_a_sidecar_runs_beside_the_containers() -> None:
    assert amounts(make_container({"cpu": "1"}), init=(sidecar(cpu="500m"),)) == {"cpu": 1500}


def test_an_init_container_runs_beside_the_sidecars_started_before_it_only() -> None:
    setup = make_container({"cpu": "3"})
    main = make_container({"cpu": "1"})
    assert amounts(main, init=(sidecar(cpu="500m"), setup)) == {"cpu": 3500}
    assert amounts(main, init=(setup, sidecar(cpu="500m"))) == {"cpu": 3000}


@pytest.mark.parametrize("kind", [None, "Always"])
def test_thousands_of_resources_are_added_up_once_for_all_sidecars(kind: str | None) -> None:
    def adding(sidecars: int) -> int:
        resources = tuple(sidecar(**{f"example.com/r{number}": "1"}) for number in range(sidecars))
        others = tuple(make_container({"cpu": f"{number}m"}, restart_policy=kind or "") for number in range(sidecars))
        shape = request_shape(PodSpec(init_containers=resources + others))
        return executed(lambda: pod_requests(shape))

    assert adding(400) < 3 * adding(200)


def test_overhead_comes_on_top() -> None:
    container = make_container({"cpu": "1"})
    assert amounts(container, overhead={"cpu": "250m", "memory": "64Mi"}) == {"cpu": 1250, "memory": 64 * 2**20}
    init = (make_container({"cpu": "2"}),)
    assert amounts(container, init=init, overhead={"cpu": "250m"}) == {"cpu": 2250}


def test_amounts_are_rounded_up_once_after_summing() -> None:
    tiny = make_container({"cpu": "100u", "memory": "500m", "nvidia.com/gpu": "500m"})
    assert amounts(tiny) == {"cpu": 1, "memory": 1, "nvidia.com/gpu": 1}
    assert amounts(*[tiny] * 3) == {"cpu": 1, "memory": 2, "nvidia.com/gpu": 2}


def test_an_explicit_zero_is_a_request() -> None:
    assert amounts(make_container({"cpu": "0", "example.com/fpga": "0"})) == {"cpu": 0, "example.com/fpga": 0}


def test_in_scoring_a_container_without_requests_counts_with_defaults() -> None:
    requests = requests_of(make_container(), make_container({"memory": "1Gi"}))
    assert requests.nonzero_cpu_milli == 2 * DEFAULT_CPU_MILLI == 200
    assert requests.nonzero_memory_bytes == DEFAULT_MEMORY_BYTES + GI


def test_in_scoring_an_explicit_zero_stays_zero() -> None:
    requests = requests_of(make_container({"cpu": "0", "memory": "0"}))
    assert (requests.nonzero_cpu_milli, requests.nonzero_memory_bytes) == (0, 0)


def test_in_scoring_each_container_is_rounded_up_on_its_own() -> None:
    assert requests_of(*[make_container({"cpu": "100u", "memory": "500m"})] * 3).nonzero_cpu_milli == 3


def test_in_scoring_a_sidecar_counts_only_against_init_containers() -> None:
    main = make_container({"cpu": "1"})
    assert requests_of(main, init=(sidecar(cpu="500m"),)).nonzero_cpu_milli == 1000
    setup = make_container({"cpu": "800m"})
    assert requests_of(main, init=(sidecar(cpu="500m"), setup)).nonzero_cpu_milli == 1300


def test_in_scoring_any_number_of_sidecars_without_requests_count_as_one() -> None:
    asks_for_nothing = make_container({"cpu": "0", "memory": "0"})
    requests = requests_of(asks_for_nothing, init=(sidecar(), sidecar(), make_container()))
    assert (requests.nonzero_cpu_milli, requests.nonzero_memory_bytes) == (DEFAULT_CPU_MILLI, DEFAULT_MEMORY_BYTES)


def test_in_scoring_overhead_counts_where_it_is_given() -> None:
    requests = requests_of(make_container(), overhead={"cpu": "250m"})
    assert (requests.nonzero_cpu_milli, requests.nonzero_memory_bytes) == (350, DEFAULT_MEMORY_BYTES)


def test_in_scoring_weights_beyond_int64_wrap_as_go_does() -> None:
    huge = make_container({"memory": "9E"})
    assert requests_of(huge, huge).nonzero_memory_bytes == 0  # negative by then, and less than no init containers
    assert requests_of(huge, overhead={"memory": "9E"}).nonzero_memory_bytes == 2 * 9 * 10**18 - 2**64


@pytest.mark.parametrize(("overhead", "expected"), [({}, 19 * 10**18), ({"memory": "1E"}, 20 * 10**18)])
def test_an_amount_beyond_int64_wraps_once_it_was_compared_with_one_of_many_digits(
    overhead: dict[str, str], expected: int
) -> None:
    """Go takes 19E alone for zero. The container without requests makes it compare 10E and 200Mi with it."""
    spec = PodSpec(
        init_containers=(sidecar(memory="10E"), make_container({}), make_container({"memory": "9E"})),
        overhead={**overhead},
    )
    requests = pod_requests(request_shape(spec, request_rules(rules_of(37))))
    assert dict(requests.amounts) == {"memory": 0}
    assert requests.nonzero_memory_bytes == expected - 2**64


def test_with_missing_requests_filled_sums_hold_the_defaults_of_scoring() -> None:
    shape = request_shape(
        PodSpec(containers=(make_container({"cpu": "1"}), make_container({"memory": "0"})), overhead={"cpu": "1m"})
    )
    assert total_requests(shape, fill_missing=True) == {
        "cpu": 1_101 * 10**6,
        "memory": DEFAULT_MEMORY_BYTES * 10**9,
    }


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu",
        "example.com/Foo_bar.1",
        "hugepages-2Mi",
        "attachable-volumes-aws-ebs",
        "kubernetes.io/batch-cpu",
        "dra.kubernetes.io/device",
        "a/b",
    ],
)
def test_extended_and_prefixed_native_resources_count(name: str) -> None:
    assert node_allocatable({name: "3"}) == {name: 3}
    assert amounts(make_container({name: "3"})) == {name: 3}


@pytest.mark.parametrize(
    "name",
    [
        "storage",
        "gpu",
        "requests.nvidia.com/gpu",
        "Example.com/gpu",
        "example.com/",
        "example.com/a/b",
        "/gpu",
        "example.com/-gpu",
        f"example.com/{'g' * 64}",
        f"{'d.' * 125}com/gpu",
    ],
)
def test_other_names_do_not_count(name: str) -> None:
    assert node_allocatable({name: "3"}) == {}
    assert amounts(make_container({name: "3"})) == {}


def test_pods_are_offered_by_nodes_but_not_requested_by_pods() -> None:
    assert node_allocatable({"pods": "110"}) == {"pods": 110}
    assert amounts(make_container({"pods": "5"})) == {}


def test_what_a_node_offers_is_rounded_up() -> None:
    assert node_allocatable({"cpu": "3920m", "memory": "1500m", "ephemeral-storage": 10**9}) == {
        "cpu": 3920,
        "memory": 2,
        "ephemeral-storage": 10**9,
    }


def test_a_malformed_quantity_is_refused() -> None:
    with pytest.raises(QuantityError, match="lots"):
        amounts(make_container({"cpu": "lots"}))
    with pytest.raises(QuantityError, match="lots"):
        amounts(make_container(), overhead={"memory": "lots"})
    with pytest.raises(QuantityError, match="lots"):
        node_allocatable({"cpu": "lots"})


cpu_lists = st.lists(st.integers(0, 4000), max_size=4)


@given(cpu_lists, st.lists(st.tuples(st.booleans(), st.integers(0, 4000)), max_size=5))
def test_a_pod_takes_the_most_that_any_moment_of_its_life_needs(
    containers: list[int], init_containers: list[tuple[bool, int]]
) -> None:
    moments = []
    sidecars = 0
    for is_sidecar, milli in init_containers:
        moments.append(sidecars + milli)
        sidecars += milli if is_sidecar else 0
    moments.append(sidecars + sum(containers))
    found = amounts(
        *[make_container({"cpu": f"{milli}m"}) for milli in containers],
        init=tuple(
            make_container({"cpu": f"{milli}m"}, restart_policy="Always" if is_sidecar else "")
            for is_sidecar, milli in init_containers
        ),
    )
    assert found.get("cpu", 0) == max(moments)


request_lists = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu", "odd"]),
    st.sampled_from(["0", "1", "1500m", "3Gi", "10E", "-1", "1n"]),
)


@given(st.lists(request_lists, min_size=1, max_size=2), request_lists, st.sampled_from([31, 37]))
def test_what_is_requested_is_rounded_the_same_wherever_it_is_asked_for(
    containers: list[dict[str, str]], overhead: dict[str, str], minor: int
) -> None:
    spec = PodSpec(containers=tuple(make_container({**each}) for each in containers), overhead={**overhead})
    shape = request_shape(spec, request_rules(rules_of(minor)))
    counted = dict(pod_requests(shape).amounts)
    for fill_missing in (False, True):
        totals = total_requests(shape, fill_missing=fill_missing)
        amounts = scored_amounts(shape, fill_missing=fill_missing)
        assert amounts == {name: whole_amount(name, nanos) for name, nanos in totals.items() if name != "odd"}
        assert fill_missing or amounts == counted


@given(request_lists, st.sampled_from([31, 37]))
def test_a_container_that_requests_all_weighs_what_it_requests(requests: dict[str, str], minor: int) -> None:
    rules = request_rules(rules_of(minor))
    alone = pod_requests(request_shape(PodSpec(containers=(make_container({**requests}),)), rules))
    # An overhead of nothing has it added up like any other pod.
    spec = PodSpec(containers=(make_container({**requests}),), overhead={"cpu": "0"})
    added_up = pod_requests(request_shape(spec, rules))
    assert alone.nonzero_cpu_milli == added_up.nonzero_cpu_milli
    assert alone.nonzero_memory_bytes == added_up.nonzero_memory_bytes


def ports_of(*ports: ContainerPort, init: tuple[ContainerPort, ...] = ()) -> frozenset[HostPort]:
    return host_ports(PodSpec(containers=(make_container(ports=ports),), init_containers=(make_container(ports=init),)))


def test_a_host_port_is_on_every_address_and_tcp_unless_it_says_otherwise() -> None:
    assert ports_of(ContainerPort(host_port=80), ContainerPort(host_port=53, host_ip="10.0.0.1", protocol="UDP")) == {
        ("0.0.0.0", "TCP", 80),
        ("10.0.0.1", "UDP", 53),
    }


def test_the_lowest_port_of_the_host_counts_like_any_other() -> None:
    spec = PodSpec(containers=(make_container(ports=[1, 65535]),))
    assert host_ports(spec) == {("0.0.0.0", "TCP", 1), ("0.0.0.0", "TCP", 65535)}


def test_a_port_that_is_not_on_the_host_does_not_count() -> None:
    assert ports_of(ContainerPort(host_port=0)) == frozenset()


def test_host_ports_of_init_containers_do_not_count() -> None:
    assert ports_of(init=(ContainerPort(host_port=80),)) == frozenset()


def test_host_ports_of_sidecars_count_where_that_is_the_rule() -> None:
    sidecar = make_container(ports=[80], restart_policy="Always")
    spec = PodSpec(containers=(make_container(ports=[443]),), init_containers=(sidecar, make_container(ports=[22])))
    assert {port for _, _, port in host_ports(spec)} == {443}
    assert {port for _, _, port in host_ports_with_sidecars(spec)} == {80, 443}


def test_host_ports_of_all_containers_count() -> None:
    spec = PodSpec(containers=(make_container(ports=[80]), make_container(ports=[80, 443])))
    assert host_ports(spec) == {("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 443)}


def pod_with(cpu: str | None, *containers: Container, level: ResourceList, **spec: Any) -> PodSpec:
    main = make_container({} if cpu is None else {"cpu": cpu})
    return PodSpec(containers=(main, *containers), resources=PodResources(requests=level), **spec)


@pytest.mark.parametrize(
    ("minor", "amount"), [(33, {"cpu": 1100, "x.io/gpu": 1}), (34, {"cpu": 2600, "memory": GI, "x.io/gpu": 1})]
)
def test_requests_of_the_pod_as_a_whole_replace_the_sum_since_1_34(minor: int, amount: dict[str, int]) -> None:
    level: ResourceList = {"cpu": "2500m", "memory": "1Gi", "x.io/gpu": "5"}
    spec = pod_with("1", make_container({"x.io/gpu": "1"}), level=level, overhead={"cpu": "100m"})
    found = pod_requests(request_shape(spec, request_rules(rules_of(minor))))
    assert dict(found.amounts) == amount


@pytest.mark.parametrize("level", [{}, {"x.io/gpu": "5"}])
def test_a_pod_that_asks_as_a_whole_for_nothing_that_may_be_asked_so_counts_by_its_containers(
    level: ResourceList,
) -> None:
    assert request_shape(pod_with("1", level=level), request_rules(rules_of(34))).pod_level is None


@pytest.mark.parametrize(
    ("minor", "level", "cpu", "memory"),
    [
        (31, {}, 200, 3 * 200 << 20),
        (32, {}, 300, 3 * 200 << 20),
        (34, {"cpu": "50m"}, 50, 3 * 200 << 20),
        (34, {"cpu": "50m", "memory": "1Mi"}, 50, 1 << 20),
        (34, {"memory": "1Mi"}, 100, 1 << 20),
    ],
)
def test_what_is_missing_is_filled_in_for_scoring_of_nodes(
    minor: int, level: ResourceList, cpu: int, memory: int
) -> None:
    """Of sidecars only since 1.32; of a pod with requests as a whole only what neither it nor a container requests."""
    spec = pod_with("100m", make_container(), level=level, init_containers=(sidecar(),))
    found = pod_requests(request_shape(spec, request_rules(rules_of(minor))))
    expected_memory = memory if minor > 31 else 2 * 200 << 20
    assert (found.nonzero_cpu_milli, found.nonzero_memory_bytes) == (cpu, expected_memory)


def test_nodes_are_not_scored_by_requests_of_the_pod_as_a_whole() -> None:
    shape = request_shape(pod_with("100m", level={"cpu": "2", "memory": "1Gi"}), request_rules(rules_of(37)))
    assert whole_amount("cpu", total_requests(shape, fill_missing=True)["cpu"]) == 100
