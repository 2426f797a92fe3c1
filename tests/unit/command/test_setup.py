import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.setup import Setup
from extender_service.command.start_error import StartError
from extender_service.framework.handle import Handle
from extender_service.kube.connection.rate_limit import TokenBucket
from tests.support.installed_package import install

PLUGIN = """
import pydantic
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter

class Args(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    limit: int = 3

class Limited(Filter):
    name = "Limited"
    args_type = Args
    def filter(self, state, pod, nodes): return None
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins: {filter: {enabled: [{name: Limited}]}}
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "limited_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "limited_plugin:Limited"
    sys.modules.pop("limited_plugin", None)


def empty() -> Handle:
    cluster = Cluster()
    return Handle(cluster, ClusterFile(cluster, []))


def config(tmp_path: Path, more: str = "") -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG + more)
    return path


def test_a_users_plugin_runs_with_its_declared_arguments(plugin: str, tmp_path: Path) -> None:
    more = "    pluginConfig: [{name: Limited, args: {limit: 7}}]\n"
    profile = Setup(config(tmp_path, more), [plugin]).profiles(empty())["default-scheduler"]
    assert [each.args.limit for each in profile.filter if each.name == "Limited"] == [7]


def test_without_a_configuration_a_named_plugin_runs_beside_the_default_ones(plugin: str, tmp_path: Path) -> None:
    install(tmp_path, "sample-plugins", limited=plugin)

    def filters(*named: str) -> list[str]:
        return [each.name for each in Setup(None, named).profiles(empty())["default-scheduler"].filter]

    assert filters(plugin) == [*filters(), "Limited"]


def test_a_named_plugin_that_no_profile_enables_is_a_warning(
    plugin: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, "sample-plugins", other="second_plugin:Second")
    (tmp_path / "second_plugin.py").write_text(PLUGIN.replace("Limited", "Second"))
    Setup(config(tmp_path), [plugin]).profiles(empty())
    Setup(None, [plugin]).profiles(empty())
    assert not caplog.records

    path = config(tmp_path)
    enabled = path.read_text()
    enabling = "filter: {enabled: [{name: Limited}]}"
    off = "multiPoint: {enabled: [{name: Limited}]}, filter: {disabled: [{name: Limited}]}"
    path.write_text(enabled.replace(enabling, off))
    Setup(path, [plugin]).profiles(empty())
    [record] = caplog.records
    caplog.clear()

    path.write_text(enabled.replace(enabling, ""))
    Setup(path, [plugin]).profiles(empty())
    [record] = caplog.records
    assert record.getMessage() == "a plugin of --plugin does nothing, as no profile of --config enables it"
    assert (vars(record)["plugin"], vars(record)["class"]) == ("Limited", plugin)


def test_arguments_that_are_left_out_have_their_defaults(plugin: str, tmp_path: Path) -> None:
    profile = Setup(config(tmp_path), [plugin]).profiles(empty())["default-scheduler"]
    assert [each.args.limit for each in profile.filter if each.name == "Limited"] == [3]


@pytest.mark.parametrize(("args", "problem"), [("{limit: many}", "args.limit: "), ("{limits: 1}", "args.limits: ")])
def test_wrong_arguments_are_named(plugin: str, tmp_path: Path, args: str, problem: str) -> None:
    path = config(tmp_path, f"    pluginConfig: [{{name: Limited, args: {args}}}]\n")
    with pytest.raises(StartError, match=re.escape(problem)):
        Setup(path, [plugin])


def test_a_plugin_that_nobody_brings_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(StartError) as error:
        Setup(config(tmp_path), [])
    problem = 'profiles[0].plugins.filter.enabled[0]: plugin "Limited" does not exist: did you mean EBSLimits?'
    assert str(error.value).startswith(f"--config: {tmp_path}/config.yaml: {problem} If not, load it by --plugin ")


def test_a_package_whose_plugin_cannot_be_loaded_stops_only_a_configuration_that_lacks_one(
    plugin: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, "sample-plugins", limited="no_such_module:Limited")
    broken = (
        "entry point limited = no_such_module:Limited of the package sample-plugins 1.2: "
        "ModuleNotFoundError: No module named 'no_such_module'"
    )
    Setup(None, []).profiles(empty())
    Setup(config(tmp_path), [plugin]).profiles(empty())
    assert [record.getMessage() for record in caplog.records] == [
        f"a plugin of an installed package is not loaded: {broken}"
    ] * 2
    with pytest.raises(StartError) as error:
        Setup(config(tmp_path), [])
    assert str(error.value).splitlines()[1] == f"{tmp_path}/config.yaml: not loaded: {broken}"


def test_two_plugins_of_one_name_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "second_node_name.py").write_text(PLUGIN.replace('"Limited"', '"NodeName"'))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StartError, match=r"--plugin: two plugins have the name NodeName: .* second_node_name:Limited"):
        Setup(None, ["second_node_name:Limited"])


def test_what_a_plugin_itself_finds_wrong_is_told_with_the_file(plugin: str, tmp_path: Path) -> None:
    module = tmp_path / "limited_plugin.py"
    module.write_text(f"{PLUGIN}    def __init__(self, args, handle): raise ValueError('no')\n")
    with pytest.raises(StartError, match=re.escape(f"--config: {tmp_path}/config.yaml: profile default-scheduler: ")):
        Setup(config(tmp_path), [plugin]).profiles(empty())


def test_a_plugin_that_cannot_be_loaded_is_told() -> None:
    with pytest.raises(StartError, match="--plugin: no_such_module:Plugin: No module named"):
        Setup(None, ["no_such_module:Plugin"])


@pytest.mark.parametrize(
    ("connection", "at_once"),
    [
        ("", None),
        ("clientConnection: {kubeconfig: /a}", None),
        ("clientConnection: {qps: -1, burst: 5}", None),
        ("clientConnection: {qps: 10, burst: 5}", 5),
        ("clientConnection: {qps: 10}", 100),
        ("clientConnection: {burst: 5}", 5),
    ],
)
def test_requests_are_limited_where_the_configuration_sets_a_rate(
    tmp_path: Path, connection: str, at_once: int | None
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{connection}\n")
    limit = Setup(path, []).service_limit(lambda: 0.0)  # no time passes between two requests

    async def take(limit: TokenBucket, count: int) -> list[bool]:
        return [await limit.take() > 0 for _ in range(count)]

    if at_once is None:
        assert limit is None
    else:
        assert limit is not None
        assert asyncio.run(take(limit, at_once + 1)) == [False] * at_once + [True]


def test_without_a_configuration_requests_are_not_limited() -> None:
    assert Setup(None, []).service_limit(lambda: 0.0) is None
