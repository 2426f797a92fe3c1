import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict  # the one of `typing`, pydantic reads from Python 3.12 on

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.loading import parse_config
from extender_service.config.model import Many, Model
from extender_service.config.problems import ConfigError
from extender_service.config.rules import rules_of
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.framework.cluster_event import TARGET_POD, ActionType, ClusterEvent
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, Score
from extender_service.framework.profile import Profile
from extender_service.framework.registry.discovery import PluginLoadError
from extender_service.framework.registry.registry import Registry
from extender_service.framework.status import Rejections
from extender_service.kube.types.core import Pod
from extender_service.kube.types.workloads import Service
from extender_service.plugins.default_binder import DefaultBinder
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.plugins.queue_sort import PrioritySort
from tests.support.stub_plugins import make_handle


class Both(Filter, Score):
    name: ClassVar[str] = "Both"

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return np.zeros(len(nodes), np.int64)


class Limits(BaseModel):
    limit: int = 3


class Limited(Both):
    name: ClassVar[str] = "Limited"
    args_type: ClassVar[type | None] = Limits


class Size(Model):
    gpus: Annotated[int, Field(ge=1)]


class Sizes(Model):
    request_sizes: Many[Size] = ()


class Sized(Both):
    name: ClassVar[str] = "Sized"
    args_type: ClassVar[type | None] = Sizes


class Resized(Sized):
    name: ClassVar[str] = "Resized"


# What every profile needs.
NEEDED = (PrioritySort, DefaultBinder)


def config(*profiles: str) -> KubeSchedulerConfiguration:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
    return parse_config(head + "".join(f"  - {profile}\n" for profile in profiles), ARGS_TYPES)


def profiles(registry: Registry, *of: str) -> dict[str, Profile]:
    return registry.profiles(config(*of), make_handle(Cluster()))


def only(**points: str) -> str:
    """A profile that enables these plugins, by extension point, and no others but those that every profile needs."""
    points = {"multiPoint": "", "queueSort": "{name: PrioritySort}", "bind": "{name: DefaultBinder}", **points}
    enabled = ", ".join(
        f"{point}: {{enabled: [{plugins}], disabled: [{{name: '*'}}]}}" for point, plugins in points.items()
    )
    return f"{{schedulerName: default-scheduler, plugins: {{{enabled}}}}}"


def test_one_instance_serves_all_of_a_plugins_extension_points() -> None:
    of = only(filter="{name: Both}", score="{name: Both, weight: 7}")
    profile = profiles(Registry([Both, *NEEDED]), of)["default-scheduler"]
    (filtering,) = profile.filter
    ((scoring, weight),) = profile.score
    assert isinstance(filtering, Both)
    assert id(filtering) == id(scoring)
    assert (weight, profile.max_total) == (7, 700)
    assert (profile.pre_filter, profile.pre_score) == ((), ())


def test_plugins_run_in_the_order_of_the_configuration() -> None:
    for names in (["Both", "Limited"], ["Limited", "Both"]):
        of = only(filter=", ".join(f"{{name: {name}}}" for name in names))
        profile = profiles(Registry([Both, Limited, *NEEDED]), of)["default-scheduler"]
        assert [plugin.name for plugin in profile.filter] == names


def test_every_profile_has_plugins_of_its_own() -> None:
    made = profiles(
        Registry([Both, *NEEDED]),
        only(filter="{name: Both}"),
        only(filter="{name: Both}").replace("default-scheduler", "other"),
    )
    assert list(made) == ["default-scheduler", "other"]
    assert made["default-scheduler"].filter[0] is not made["other"].filter[0]


def test_a_plugin_that_nobody_knows_is_an_error() -> None:
    registry = Registry([Both, *NEEDED])
    for attempt in (registry.check, lambda wrong: registry.profiles(wrong, make_handle(Cluster()))):
        with pytest.raises(ConfigError, match="Unknown"):
            attempt(config(only(filter="{name: Unknown}")))


def test_plugins_that_could_not_be_loaded_are_part_of_the_error_where_one_does_not_exist() -> None:
    broken = "entry point a = b:C of the package d 1.0: ImportError: no b"
    registry = Registry([Both, *NEEDED], [broken])
    for unknown in (only(filter="{name: Unknown}"), only(multiPoint="{name: Unknown}")):
        with pytest.raises(ConfigError) as caught:
            registry.check(config(unknown))
        assert str(caught.value).splitlines()[1:] == [f"not loaded: {broken}"]
    with pytest.raises(ConfigError) as caught:
        registry.check(config(only(preFilter="{name: Both}")))
    assert "not loaded" not in str(caught.value)
    registry.check(config(only(filter="{name: Both}")))


def test_a_plugin_cannot_be_enabled_where_it_does_nothing() -> None:
    with pytest.raises(ConfigError, match="Both"):
        Registry([Both, *NEEDED]).check(config(only(preFilter="{name: Both}")))


def args_of(args: str) -> Any:
    of = only(filter="{name: Limited}")[:-1] + f", pluginConfig: [{{name: Limited, args: {args}}}]}}"
    return profiles(Registry([Limited, *NEEDED]), of)["default-scheduler"].filter[0].args


def test_arguments_are_of_the_type_that_the_plugin_declares() -> None:
    assert args_of("{limit: 5}") == Limits(limit=5)
    assert args_of("{}") == Limits()
    of = only(filter="{name: Limited}")
    assert profiles(Registry([Limited, *NEEDED]), of)["default-scheduler"].filter[0].args == Limits()
    with pytest.raises(ConfigError, match=r"pluginConfig of Limited: args\.limit"):
        args_of("{limit: many}")


class Budget(TypedDict):
    limit: int


class Zoned(BaseModel):
    zone: Annotated[str, Field(pattern="^[a-z]{1,3}$")]


class Costly(BaseModel):
    cost: Annotated[str, AfterValidator(Decimal)]  # raises an ArithmeticError


def bad(_: object) -> object:
    raise PydanticCustomError("value_error", "bad {x}", {"x": 1})


class Named(BaseModel):
    name: Annotated[str, AfterValidator(bad)]


class Unreadable:
    """No type that pydantic reads."""


@pytest.mark.parametrize(
    ("args_type", "args", "read"),
    [
        (dict[str, int], "{limit: 5}", {"limit": 5}),
        (list[str], "[a, b]", ["a", "b"]),
        (Budget, "{limit: 5}", {"limit": 5}),
    ],
)
def test_arguments_may_be_of_any_type_that_pydantic_reads(
    args_type: Any, args: str, read: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Limited, "args_type", args_type)
    assert args_of(args) == read


@pytest.mark.parametrize(
    ("args_type", "args", "says"),
    [
        (dict[str, int], "{limit: many}", "pluginConfig of Limited: args.limit: Invalid value: "),
        (list[int], "[1, many]", "pluginConfig of Limited: args[1]: Invalid value: "),
        (Budget, "{}", "pluginConfig of Limited: args.limit: "),
        (Zoned, "{zone: '1'}", 'pluginConfig of Limited: args.zone: Invalid value: "1": String should match pattern'),
        (Costly, "{cost: much}", "pluginConfig of Limited: args: InvalidOperation: "),
        (Named, "{name: x}", 'pluginConfig of Limited: args.name: Invalid value: "x": bad 1'),
        (Unreadable, "{}", "plugin Limited: args_type: Unable to generate pydantic-core schema for "),
    ],
)
def test_what_such_a_type_does_not_take_is_told_with_the_plugin(
    args_type: Any, args: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Limited, "args_type", args_type)
    with pytest.raises(ConfigError, match=re.escape(f"profile default-scheduler: {says}")):
        args_of(args)


def problems(sized: str, resized: str) -> list[str]:
    """What is wrong with the arguments of two plugins."""
    args = f"[{{name: Sized, args: {sized}}}, {{name: Resized, args: {resized}}}]"
    of = only(filter="{name: Sized}, {name: Resized}")[:-1] + f", pluginConfig: {args}}}"
    with pytest.raises(ConfigError) as caught:
        Registry([Sized, Resized, *NEEDED]).check(config(of))
    return [str(problem) for problem in caught.value.problems]


def test_all_that_is_wrong_with_arguments_is_said_at_once_with_paths() -> None:
    where = "profile default-scheduler: pluginConfig of"
    assert problems("{requestSizes: [{gpus: 1}, {gpus: 0}]}", "{requestSize: []}") == [
        f"{where} Sized: args.requestSizes[1].gpus: Invalid value: 0: must be at least 1",
        f"{where} Resized: args.requestSize: unknown field: did you mean requestSizes?",
    ]
    assert problems("5", "{}") == [f"{where} Sized: args: Invalid value: 5: must be a mapping"]


def test_what_a_plugin_itself_finds_wrong_with_its_arguments_is_an_error_of_the_configuration() -> None:
    class Even(Limited):
        name: ClassVar[str] = "Even"

        def __init__(self, args: Limits, handle: Handle) -> None:
            if args.limit % 2:
                raise ValueError(f"limit: {args.limit} is odd")
            super().__init__(args, handle)

    with pytest.raises(ConfigError, match=r"^profile default-scheduler: pluginConfig of Even: args: limit: 3 is odd$"):
        profiles(Registry([Even, *NEEDED]), only(filter="{name: Even}"))


def test_whatever_a_constructor_raises_is_an_error_of_the_plugin(caplog: pytest.LogCaptureFixture) -> None:
    class Careless(Both):
        name: ClassVar[str] = "Careless"

        def __init__(self, args: Any, handle: Handle) -> None:
            super().__init__(args["url"], handle)

    says = r"^profile default-scheduler: plugin Careless: TypeError: 'NoneType' object is not subscriptable$"
    with pytest.raises(ConfigError, match=says):
        profiles(Registry([Careless, *NEEDED]), only(filter="{name: Careless}"))
    (record,) = caplog.records
    assert record.exc_info is not None


def test_reads_of_what_the_cluster_does_not_keep_are_an_error_of_the_plugin() -> None:
    class ByName(Both):
        name: ClassVar[str] = "ByName"
        reads: ClassVar[Any] = frozenset({"Service"})

    class One(Both):
        name: ClassVar[str] = "One"
        reads: ClassVar[Any] = Service

    with pytest.raises(ConfigError) as caught:
        Registry([ByName, One, *NEEDED]).check(config(only(filter="{name: ByName}, {name: One}")))
    by_name, one = map(str, caught.value.problems)
    assert by_name.startswith("profile default-scheduler: plugin ByName: reads must be a frozenset of Service, ")
    assert by_name.endswith("; it has 'Service'")
    assert one.startswith("profile default-scheduler: plugin One: reads must be ")
    assert one.endswith("; it is Service")


def test_a_retry_on_that_means_nothing_is_an_error_of_the_plugin() -> None:
    class Late(Both):
        name: ClassVar[str] = "Late"
        retry_on = (ClusterEvent("Nodes", ActionType.ADD),)

    registry = Registry([Late, *NEEDED])
    for attempt in (registry.check, lambda wrong: registry.profiles(wrong, make_handle(Cluster()))):
        with pytest.raises(
            ConfigError, match=r"^profile default-scheduler: plugin Late: retry_on\[0\].resource must be "
        ):
            attempt(config(only(filter="{name: Late}")))


@pytest.mark.parametrize("minor", [36, 37])
def test_a_retry_on_that_only_later_releases_know_is_an_error_of_the_plugin(minor: int) -> None:
    class Own(Both):
        name = "Own"
        retry_on = (ClusterEvent(TARGET_POD, ActionType.UPDATE),)

    rules = rules_of(minor)
    registry, of = Registry([Own, *NEEDED], rules=rules), config(only(filter="{name: Own}"))
    for attempt in (registry.check, lambda read: registry.profiles(read, make_handle(Cluster(rules)))):
        if minor == 37:
            attempt(of)
            continue
        with pytest.raises(ConfigError, match=r"plugin Own: retry_on\[0\]\.resource: no event before 1\.37 is about"):
            attempt(of)


def test_a_retry_on_that_only_an_object_knows_is_read_of_the_object() -> None:
    class Late(Both):
        name: ClassVar[str] = "Late"

        @property
        def retry_on(self) -> Sequence[ClusterEvent]:  # type: ignore[override]
            return [ClusterEvent("Nodes", ActionType.ADD)]

    registry = Registry([Late, *NEEDED])
    registry.check(config(only(filter="{name: Late}")))
    with pytest.raises(ConfigError, match="plugin Late: retry_on"):
        profiles(registry, only(filter="{name: Late}"))


def test_a_retry_on_that_is_none_until_the_constructor_sets_it_is_read_of_the_object() -> None:
    class Late(Both):
        name: ClassVar[str] = "Late"
        retry_on: Sequence[ClusterEvent] = cast(Any, None)

    class Set(Late):
        name: ClassVar[str] = "Set"

        def __init__(self, args: Any, handle: Handle) -> None:
            super().__init__(args, handle)
            self.retry_on = [ClusterEvent("Node", ActionType.ADD)]

    registry = Registry([Late, Set, *NEEDED])
    registry.check(config(only(filter="{name: Late}, {name: Set}")))
    (profile,) = profiles(registry, only(filter="{name: Set}")).values()
    assert profile.filter[0].retry_on == [ClusterEvent("Node", ActionType.ADD)]
    with pytest.raises(ConfigError, match="plugin Late: retry_on must be a tuple of ClusterEvents"):
        profiles(registry, only(filter="{name: Late}"))


def test_two_plugins_cannot_have_one_name() -> None:
    with pytest.raises(PluginLoadError, match=r"two plugins have the name Both: \S+:Both and \S+:Both"):
        Registry([Both, Both])


def test_the_in_tree_plugins_make_the_default_profile() -> None:
    registry = Registry(IN_TREE)
    (profile,) = registry.profiles(config(), make_handle(Cluster())).values()
    filters = [plugin.name for plugin in profile.filter]
    assert filters[:4] == ["NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity"]
    assert {"NodeResourcesFit", "NodeAffinity", "TaintToleration"} <= {plugin.name for plugin, _ in profile.score}
