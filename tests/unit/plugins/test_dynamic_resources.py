import numpy as np
import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.defaulting import default_plugins
from extender_service.config.loading import parse_config
from extender_service.config.problems import ConfigError
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.queueing_hints import queueing_hints
from extender_service.framework.status import SKIP, Code
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod, PodResourceClaim, PodSpec
from extender_service.plugins.dynamic_resources import DynamicResources
from extender_service.plugins.in_tree import ARGS_TYPES
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node
from tests.support.stub_plugins import make_handle

POD = Pod()
WITH_CLAIM = Pod(spec=PodSpec(resource_claims=(PodResourceClaim("gpu"),)))
CLUSTER = Cluster(rules_of(37))
CLUSTER.apply_node(make_node("a"))
NODES = CLUSTER.view(None)
PLUGIN = DynamicResources(None, make_handle(CLUSTER))


def room(state: CycleState, plugin: DynamicResources = PLUGIN) -> tuple[Code, tuple[str, ...]]:
    verdicts = Verdicts(NODES, np.zeros(len(NODES), np.bool_))
    status = plugin.post_filter(state, POD, verdicts, lambda _: verdicts).status
    return status.code, status.reasons


def test_it_has_nothing_to_say_about_pods_without_claims() -> None:
    state = CycleState(POD)
    assert PLUGIN.pre_filter(state, POD) == SKIP
    assert PLUGIN.filter(state, POD, NODES) is None
    assert PLUGIN.score(state, POD, NODES).tolist() == [0]
    assert room(state) == (Code.UNSCHEDULABLE, ())


def test_it_rejects_no_pod_so_no_change_is_worth_another_attempt() -> None:
    assert queueing_hints([PLUGIN], rules_of(37)) == {}


@pytest.mark.parametrize("minor", [34, 35, 36])
def test_before_1_37_it_says_that_there_is_nothing_to_take_back(minor: int) -> None:
    plugin, state = DynamicResources(None, make_handle(Cluster(rules_of(minor)))), CycleState(POD)
    plugin.pre_filter(state, POD)
    assert room(state, plugin) == (Code.UNSCHEDULABLE, ("no new claims to deallocate",))


@in_event_loop
async def test_it_lets_pods_into_the_queue_and_prepares_nothing_for_their_binding() -> None:
    state = CycleState(POD)
    PLUGIN.pre_filter(state, POD)
    assert PLUGIN.pre_enqueue(POD) is None
    assert PLUGIN.reserve(state, POD, "a") is None
    assert PLUGIN.pre_bind_pre_flight(state, POD, "a") == SKIP
    assert await PLUGIN.pre_bind(state, POD, "a") is None
    PLUGIN.unreserve(state, POD, "a")


@in_event_loop
async def test_while_its_gate_is_off_it_says_nothing_about_any_pod() -> None:
    rules = rules_of(34, {"DynamicResourceAllocation": False})
    plugin = DynamicResources(None, make_handle(Cluster(rules)))
    assert plugin.pre_filter(CycleState(WITH_CLAIM), WITH_CLAIM) == SKIP
    assert plugin.filter(CycleState(WITH_CLAIM), WITH_CLAIM, NODES) is None
    assert room(CycleState(WITH_CLAIM), plugin) == (Code.UNSCHEDULABLE, ("plugin disabled",))
    state = CycleState(WITH_CLAIM)
    assert plugin.reserve(state, WITH_CLAIM, "a") is None
    assert plugin.pre_bind_pre_flight(state, WITH_CLAIM, "a") == SKIP
    assert await plugin.pre_bind(state, WITH_CLAIM, "a") is None


def test_a_pod_with_claims_is_not_judged_here() -> None:
    state = CycleState(WITH_CLAIM)
    assert PLUGIN.pre_filter(state, WITH_CLAIM) is None
    assert PLUGIN.filter(state, WITH_CLAIM, NODES) is None


def test_where_another_plugin_ended_pre_filter_it_fails_as_in_kube_scheduler() -> None:
    state = CycleState(POD)
    assert room(state) == (Code.ERROR, ("not found",))
    with pytest.raises(PluginError, match="not found"):
        PLUGIN.score(state, POD, NODES)
    with pytest.raises(PluginError, match="not found"):
        PLUGIN.filter(state, POD, NODES)


@in_event_loop
async def test_where_its_pre_filter_is_disabled_it_can_neither_reserve_nor_bind() -> None:
    state = CycleState(POD)
    with pytest.raises(PluginError, match="not found"):
        PLUGIN.reserve(state, POD, "a")
    with pytest.raises(PluginError, match="not found"):
        PLUGIN.pre_bind_pre_flight(state, POD, "a")
    with pytest.raises(PluginError, match="not found"):
        await PLUGIN.pre_bind(state, POD, "a")
    PLUGIN.unreserve(state, POD, "a")


def test_it_runs_before_preemption_from_1_34_on() -> None:
    names = {minor: [(each.name, each.weight) for each in default_plugins(rules_of(minor))] for minor in range(31, 38)}
    assert "DynamicResources" not in dict(names[33])
    for minor, weight in (34, 0), (35, 2), (37, 2):
        at = names[minor].index(("DynamicResources", weight))
        assert names[minor][at + 1][0] == "DefaultPreemption"


CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def args_in(minor: int, args: str = "{}", **gates: bool) -> object:
    text = f"{CONFIG}profiles: [{{pluginConfig: [{{name: DynamicResources, args: {args}}}]}}]\n"
    [profile] = parse_config(text, ARGS_TYPES, rules_of(minor, gates)).profiles
    found = profile.args("DynamicResources")
    return found.model_dump(by_alias=True, exclude={"api_version", "kind"}) if hasattr(found, "model_dump") else found


def test_timeouts_have_the_defaults_of_the_release() -> None:
    binding = {"filterTimeout": "10s", "bindingTimeout": "10m0s"}
    assert [args_in(minor) for minor in (34, 35, 36, 37)] == [{"filterTimeout": "10s"}] * 2 + [binding] * 2
    assert args_in(35, DRADeviceBindingConditions=True) == binding
    assert args_in(37, DRADeviceBindingConditions=False, DRASchedulerFilterTimeout=False) == {}
    given = "{filterTimeout: 0s, bindingTimeout: 1s}"
    assert args_in(37, given) == {"filterTimeout": "0s", "bindingTimeout": "1s"}


def test_before_the_arguments_came_anything_may_stand_there() -> None:
    assert args_in(33, "{anything: 1}", DynamicResourceAllocation=False) is None
    with pytest.raises(ConfigError, match="unknown field"):
        args_in(34, "{anything: 1}")


@pytest.mark.parametrize(
    ("minor", "gates", "args", "said"),
    [
        (37, {}, "{filterTimeout: -1s}", 'filterTimeout: Invalid value: "-1s": must be zero or positive'),
        (
            37,
            {"DRASchedulerFilterTimeout": False},
            "{filterTimeout: 1s}",
            "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
        ),
        (37, {}, "{bindingTimeout: 999ms}", 'bindingTimeout: Invalid value: "999ms": must be at least 1 second'),
        (34, {}, "{bindingTimeout: 5s}", "bindingTimeout: unknown field: 1.34 does not have it"),
        (
            35,
            {},
            "{bindingTimeout: 5s}",
            "bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate",
        ),
        (37, {}, "{filterTimeout: 5}", "filterTimeout: Invalid value: 5: must be a duration"),
    ],
)
def test_timeouts_are_refused_as_in_the_release(minor: int, gates: dict[str, bool], args: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        args_in(minor, args, **gates)
    assert str(caught.value).startswith(f"profiles[0].pluginConfig[0].args.{said}")
