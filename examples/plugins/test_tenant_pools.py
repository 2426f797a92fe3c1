import asyncio

import pytest

from examples.plugins.tenant_pools import OTHER_TENANT, TENANT, TenantPools
from extender_service.plugin_api import NODE, SKIP, ActionType, ClusterEvent, CycleState, Node, Pod, QueueingHint
from extender_service.testing import Trial, make_node, make_pod

REFUSED = "node(s) belonged to another tenant"


def node(name: str, tenant: str = "") -> Node:
    return make_node(name, labels={TENANT: tenant} if tenant else {})


def pod(tenant: str = "") -> Pod:
    return make_pod("web", labels={TENANT: tenant} if tenant else {})


@pytest.fixture
def trial() -> Trial:
    return Trial([node("red-1", "red"), node("blue-1", "blue"), node("shared")])


def test_a_tenants_pod_goes_to_its_own_nodes_and_rather_there_than_to_shared_ones(trial: Trial) -> None:
    plugin = TenantPools(None, trial.handle)
    assert trial.refusals(plugin, pod("red")) == {"blue-1": REFUSED}
    assert trial.scores(plugin, pod("red")) == {"red-1": 100, "shared": 0}


@pytest.mark.parametrize("tenant", ["", "green"])
def test_who_owns_no_node_shares(trial: Trial, tenant: str) -> None:
    plugin = TenantPools(None, trial.handle)
    assert trial.refusals(plugin, pod(tenant)) == {"red-1": REFUSED, "blue-1": REFUSED}


def test_a_pod_of_no_tenant_has_no_preference(trial: Trial) -> None:
    assert trial.scores(TenantPools(None, trial.handle), pod()) == {}


@pytest.mark.parametrize(("owner", "hint"), [("red", "QUEUE"), ("", "QUEUE"), ("blue", "SKIP")])
def test_a_rejected_pod_is_tried_again_for_shared_nodes_and_its_tenants_own(
    trial: Trial, owner: str, hint: str
) -> None:
    plugin = TenantPools(None, trial.handle)
    relabelled = ClusterEvent(NODE, ActionType.UPDATE_NODE_LABEL)
    said = plugin.queueing_hint(relabelled, pod("red"), node("blue-1", "blue"), node("blue-1", owner))
    assert said is QueueingHint[hint]


def test_only_on_a_shared_node_is_there_something_to_check_before_a_binding(trial: Trial) -> None:
    plugin = TenantPools(None, trial.handle)

    def skips(bound: Pod, node_name: str) -> bool:
        return plugin.pre_bind_pre_flight(CycleState(bound), bound, node_name) == SKIP

    assert skips(pod("red"), "red-1")
    assert not any(skips(pod("red"), name) for name in ("shared", "blue-1", "gone"))
    assert not any(skips(pod(), name) for name in ("shared", "blue-1", "gone"))


def test_a_node_that_changed_hands_after_the_decision_is_not_bound_to(trial: Trial) -> None:
    plugin = TenantPools(None, trial.handle)
    red = pod("red")
    state = CycleState(red)
    plugin.pre_filter(state, red)

    before = asyncio.run(plugin.pre_bind(state, red, "shared"))
    trial.cluster.apply_node(node("shared", "blue"))
    after = asyncio.run(plugin.pre_bind(state, red, "shared"))

    assert before is None
    assert after == OTHER_TENANT
