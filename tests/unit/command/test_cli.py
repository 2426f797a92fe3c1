import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from extender_service.command import cli
from extender_service.command.emulation import EmulationOptions
from extender_service.command.option_parser import ENVIRONMENT_PREFIX
from extender_service.command.serve import serve
from extender_service.command.serve.serve_options import ServeOptions
from extender_service.command.start_error import StartError
from extender_service.extender.overload.overload import CallLimits
from extender_service.serving.connection_limits import ConnectionLimits
from tests.support.first_process import run_as_first_process

Served = Callable[..., ServeOptions]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(ENVIRONMENT_PREFIX):
            monkeypatch.delenv(name)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    """Runs `serve` with some arguments, up to where the service would start; returns what it would start with."""

    def run(*arguments: str) -> ServeOptions:
        given: list[ServeOptions] = []
        monkeypatch.setattr(serve, "serve", given.append)
        assert cli.main(["serve", *arguments]) == 0
        return given[0]

    return run


@pytest.fixture
def some_file(tmp_path: Path) -> Path:
    path = tmp_path / "file.yaml"
    path.write_text("")
    return path


def test_without_options_it_listens_on_this_machine_and_looks_for_an_api_server(served: Served) -> None:
    assert served() == ServeOptions(
        emulation=EmulationOptions(),
        config=None,
        kubeconfig=None,
        master="",
        cluster_files=[],
        plugins=[],
        leader_lease=None,
        ask_again=True,
        mode="beside",
        preemption="kube-scheduler",
        stale_limit_seconds=30,
        bind_address="127.0.0.1",
        port=8888,
        tls_cert_file=None,
        tls_private_key_file=None,
        tls_min_version="VersionTLS12",
        client_ca_file=None,
        allowed_names=[],
        insecure_serving=False,
        healthz_bind_address=None,
        healthz_port=None,
        shutdown_delay_seconds=None,
        shutdown_grace_seconds=25.0,
        calls=CallLimits(),
        connections=ConnectionLimits(),
        watchdog_seconds=30.0,
        without_effect=(),
        log_level=logging.INFO,
        log_format="text",
    )


# Option, value, field, what it becomes; FILE stands for a file that exists.
OPTIONS: list[tuple[str, str, str, Any]] = [
    ("--emulated-version", "1.34", "emulation", EmulationOptions(34)),
    ("--feature-gates", "A=true,B=false", "emulation", EmulationOptions(gates={"A": True, "B": False})),
    ("--config", "FILE", "config", "FILE"),
    ("--kubeconfig", "FILE", "kubeconfig", "FILE"),
    ("--master", "https://127.0.0.1:6443", "master", "https://127.0.0.1:6443"),
    ("--cluster-file", "FILE", "cluster_files", ["FILE"]),
    ("--plugin", "package.module:Class", "plugins", ["package.module:Class"]),
    ("--mode", "replace", "mode", "replace"),
    ("--stale-limit", "10s", "stale_limit_seconds", 10.0),
    ("--leader-lease", "system/web", "leader_lease", ("system", "web")),
    ("--ask-again", "false", "ask_again", False),
    ("--preemption", "service", "preemption", "service"),
    ("--bind-address", "::1", "bind_address", "::1"),
    ("--port", "0", "port", 0),
    ("--port", "65535", "port", 65535),
    ("--tls-cert-file", "FILE", "tls_cert_file", "FILE"),
    ("--tls-private-key-file", "FILE", "tls_private_key_file", "FILE"),
    ("--tls-min-version", "VersionTLS13", "tls_min_version", "VersionTLS13"),
    ("--client-ca-file", "FILE", "client_ca_file", "FILE"),
    ("--allowed-names", "system:kube-scheduler, b", "allowed_names", ["system:kube-scheduler", "b"]),
    ("--insecure-serving", "true", "insecure_serving", True),
    ("--insecure-serving", "false", "insecure_serving", False),
    ("--healthz-port", "0", "healthz_port", 0),
    ("--healthz-bind-address", "::", "healthz_bind_address", "::"),
    ("--shutdown-delay-duration", "0s", "shutdown_delay_seconds", 0.0),
    ("--shutdown-grace-period", "1m30s", "shutdown_grace_seconds", 90.0),
    ("--max-body-size", "1Mi", "calls", CallLimits(body_bytes=1 << 20)),
    ("--max-bodies-size", "2e6", "calls", CallLimits(bodies_bytes=2_000_000)),
    ("--max-bodies-size", "2Gi", "connections", ConnectionLimits(unsent_bytes=2 << 30)),
    ("--max-requests", "7", "calls", CallLimits(requests=7)),
    ("--max-bindings", "7", "calls", CallLimits(bindings=7)),
    ("--decision-timeout", "800ms", "calls", CallLimits(decision_seconds=0.8)),
    ("--max-connections", "7", "connections", ConnectionLimits(connections=7)),
    ("--max-header-size", "4Ki", "connections", ConnectionLimits(header_bytes=4096)),
    ("--header-timeout", "1s", "connections", ConnectionLimits(header_seconds=1)),
    ("--request-timeout", "1m", "connections", ConnectionLimits(request_seconds=60)),
    ("--idle-timeout", "5m", "connections", ConnectionLimits(idle_seconds=300)),
    ("--tls-handshake-timeout", "1s", "connections", ConnectionLimits(handshake_seconds=1)),
    ("--watchdog-timeout", "0", "watchdog_seconds", 0.0),
    ("--log-level", "debug", "log_level", logging.DEBUG),
    ("--log-level", "warning", "log_level", logging.WARNING),
    ("--log-level", "4", "log_level", logging.DEBUG),
    ("--log-format", "json", "log_format", "json"),
]


def _with_file(value: Any, path: Path) -> Any:
    if isinstance(value, list):
        return [_with_file(each, path) for each in value]
    return path if value == "FILE" else value


@pytest.mark.parametrize("by", ["command line", "environment"])
@pytest.mark.parametrize(("option", "value", "field", "becomes"), OPTIONS)
def test_every_option_by_command_line_and_environment(
    option: str,
    value: str,
    field: str,
    becomes: Any,
    by: str,
    served: Served,
    some_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = str(some_file) if value == "FILE" else value
    if by == "environment":
        monkeypatch.setenv(variable(option), text)
        options = served()
    else:
        options = served(option, text)
    assert getattr(options, field) == _with_file(becomes, some_file)


def variable(option: str) -> str:
    return ENVIRONMENT_PREFIX + option.removeprefix("--").replace("-", "_").upper()


def test_all_options_are_covered_here() -> None:
    assert {field for _, _, field, _ in OPTIONS} == ServeOptions.__dataclass_fields__.keys() - {"without_effect"}


def test_options_about_an_api_server_have_no_effect_with_a_cluster_file(served: Served, some_file: Path) -> None:
    given = ["--kubeconfig", str(some_file), "--stale-limit=20s", "--ask-again=true", "--port=1"]
    assert served(*given).without_effect == ()
    without_effect = ("--ask-again", "--kubeconfig", "--stale-limit")
    assert served(*given, "--cluster-file", str(some_file)).without_effect == without_effect


def test_the_log_level_has_a_short_name(served: Served) -> None:
    assert served("-v", "error").log_level == logging.ERROR


def test_insecure_serving_needs_no_value(served: Served) -> None:
    assert served("--insecure-serving", "--port=1").insecure_serving is True


def test_no_names_are_not_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'' has an empty name" in refusal(["serve", "--allowed-names="], capsys)


def test_the_command_line_has_the_say(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTENDER_SERVICE_PORT", "1234")
    assert served("--port", "4321").port == 4321


def test_an_empty_variable_says_nothing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTENDER_SERVICE_PORT", "")
    assert served().port == 8888


def test_several_values(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    for path in (first, second):
        path.touch()
    assert served("--cluster-file", str(first), "--cluster-file", str(second)).cluster_files == [first, second]
    monkeypatch.setenv("EXTENDER_SERVICE_CLUSTER_FILE", f"{first},{second}")
    assert served().cluster_files == [first, second]


WRONG: list[tuple[str, str, str]] = [
    ("--config", "/nowhere/at-all.yaml", "there is no file /nowhere/at-all.yaml"),
    ("--kubeconfig", "/", "/ is a folder, not a file"),
    ("--cluster-file", "/nowhere", "there is no file /nowhere"),
    ("--mode", "instead", "'beside', 'replace'"),
    ("--stale-limit", "9s", "'9s' is less than 10s"),
    ("--leader-lease", "system", "'system' is not NAMESPACE/NAME"),
    ("--leader-lease", "a/b/c", "'a/b/c' is not NAMESPACE/NAME"),
    ("--port", "http", "'http' is not a port: give a number from 0 to 65535"),
    ("--port", "65536", "'65536' is not a port: give a number from 0 to 65535"),
    ("--port", "-1", "'-1' is not a port: give a number from 0 to 65535"),
    ("--port", "\N{SUPERSCRIPT TWO}", "is not a port: give a number from 0 to 65535"),
    ("--tls-cert-file", "/nowhere.crt", "there is no file /nowhere.crt"),
    ("--tls-min-version", "VersionTLS11", "'VersionTLS12', 'VersionTLS13'"),
    ("--allowed-names", "a,,b", "'a,,b' has an empty name"),
    ("--insecure-serving", "yes", "'yes' is neither true nor false"),
    ("--max-body-size", "large", "quantity 'large' must be a number"),
    ("--max-body-size", "-1", "'-1' is not a size: give a number of bytes, such as 512Mi"),
    ("--max-requests", "0", "'0' is not a number: give a whole number, 1 or more"),
    ("--max-requests", "many", "'many' is not a number: give a whole number, 1 or more"),
    ("--decision-timeout", "0s", "'0s' must be more than 0"),
    ("--decision-timeout", "soon", "invalid duration"),
    ("--watchdog-timeout", "-1s", "'-1s' is negative"),
    ("--healthz-port", "health", "'health' is not a port"),
    ("--shutdown-delay-duration", "5", 'missing unit in duration "5"'),
    ("--shutdown-grace-period", "-5s", "'-5s' is negative"),
    ("--log-level", "loud", "loud"),
    ("--log-format", "xml", "'text', 'json'"),
]


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that is said, with the exit code that wrong usage has."""
    with pytest.raises(SystemExit) as raised:
        cli.main(arguments)
    assert raised.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.mark.parametrize(("option", "value", "says"), WRONG)
def test_a_wrong_value_is_told_in_one_line(
    option: str, value: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(["serve", f"{option}={value}"], capsys)
    assert option in line
    assert says in line
    assert line.endswith("(see extender-service serve --help)\n")


@pytest.mark.parametrize(("option", "value", "says"), WRONG)
def test_a_wrong_value_in_the_environment_too(
    option: str, value: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(option), value)
    line = refusal(["serve"], capsys)
    assert f"environment variable {variable(option)}: " in line
    plainly = says.replace("', '", ", ").strip("'") if says.startswith("'") and "', '" in says else says
    assert plainly in line


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["serve", "--altitude=3"], "--altitude"),
        (["serve", "--port"], "--port"),
        (["config"], "ACTION"),
        (
            ["serve", "--cluster=file"],
            "extender-service serve: there is no option --cluster: did you mean --cluster-file?",
        ),
        (["serve", "--max-bod", "4"], "did you mean --max-body-size or --max-bodies-size?"),
        (["serve", "--prot=3"], "there is no option --prot: did you mean --port?"),
        (["serve", "-"], "unrecognized argument '-'"),
        (["serve", "-q"], "there is no option -q (see"),
        (["serve", "more"], "unrecognized argument 'more'"),
        (["config", "check", "--conf=file"], "config check: there is no option --conf: did you mean --config?"),
    ],
)
def test_wrong_usage_is_told_in_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refusal(arguments, capsys)


def test_a_wrong_value_in_the_environment_is_no_concern_of_other_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTENDER_SERVICE_PORT", "http")
    assert cli.main(["version"]) == 0
    assert cli.main(["config", "check"]) == 0
    assert capsys.readouterr().out.endswith("valid for kube-scheduler 1.37\n")


def test_the_version_names_the_release_of_kubernetes_too(capsys: pytest.CaptureFixture[str]) -> None:
    expected = f"extender-service {version('extender-service')} (follows kube-scheduler 1.31 to 1.37)\n"
    assert cli.main(["version"]) == 0
    assert capsys.readouterr().out == expected
    with pytest.raises(SystemExit) as raised:
        cli.main(["--version"])
    assert raised.value.code == 0
    assert capsys.readouterr().out == expected


def test_the_release_of_kubernetes_is_the_one_that_is_tested_against() -> None:
    modules = (Path(__file__).parents[2] / "go.mod").read_text()
    assert "k8s.io/kubernetes v1.31.1\n" in modules


def test_what_keeps_the_service_from_starting_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot_start(_: ServeOptions) -> None:
        raise StartError("--port: 127.0.0.1:80 is in use")

    monkeypatch.setattr(serve, "serve", cannot_start)
    assert cli.main(["serve"]) == 1
    assert capsys.readouterr().err == "extender-service: --port: 127.0.0.1:80 is in use\n"


def test_ctrl_c_is_no_failure_to_talk_about(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: ServeOptions) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(serve, "serve", interrupted)
    assert cli.main(["serve"]) == 130
    assert capsys.readouterr().err == ""


def test_a_configuration_is_checked_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    assert cli.main(["config", "check", f"--config={path}"]) == 0
    assert capsys.readouterr().out == "valid for kube-scheduler 1.37\n"
    assert cli.main(["config", "check", f"--config={path}", "--emulated-version=1.32"]) == 0
    assert capsys.readouterr().out == "valid for kube-scheduler 1.32\n"
    assert cli.main(["config", "print", f"--config={path}"]) == 0
    assert "schedulerName: default-scheduler" in capsys.readouterr().out
    path.write_text("kind: Deployment\n")
    assert cli.main(["config", "check", f"--config={path}"]) == 1
    assert capsys.readouterr().err.startswith("extender-service: --config: ")


def test_what_changes_nothing_is_named_when_a_configuration_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "check", "--emulated-version=1.31", "--feature-gates=NodeSwap=false"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "valid for kube-scheduler 1.31\n"
    assert 'msg="an option has no effect" option="--feature-gates NodeSwap"' in printed.err


@pytest.mark.parametrize("command", ["serve", "schedule"])
def test_the_signal_for_a_dump_does_not_end_a_program_that_starts(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_options: object) -> int:
        os.kill(os.getpid(), signal.SIGUSR2)
        return 0

    before = signal.signal(signal.SIGUSR2, lambda *_: pytest.fail("the signal is handled as before"))
    try:
        monkeypatch.setattr(f"extender_service.command.{command}.{command}.{command}", start)
        assert cli.main([command]) == 0
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_schedule_loads_nothing_that_answers_calls_of_the_extender() -> None:
    program = """
import sys
from extender_service.command import cli
from extender_service.command.schedule import schedule

schedule.schedule = lambda _: 0
cli.main(["schedule"])
print(*(module for module in sys.modules if module.startswith("extender_service.extender.")))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    overload = "extender_service.extender.overload"  # the defaults of options of `serve`
    assert [module for module in ended.stdout.split() if not module.startswith(overload)] == []


def test_a_program_that_starts_as_the_first_process_of_a_container_ends_when_it_is_told_so(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from extender_service.command import cli
from extender_service.command.serve import serve

serve.serve = lambda _: os.kill(os.getpid(), signal.SIGTERM)
cli.main(["serve", "--cluster-file", sys.argv[1]])
"""
    file = tmp_path / "cluster.yaml"
    file.write_text("{}")
    ended = run_as_first_process(program, str(file))
    assert (ended.returncode, ended.stderr) == (signal.SIGTERM, "")


def test_a_second_signal_ends_a_scheduler_that_is_the_first_process_of_a_container() -> None:
    program = """
import asyncio, os, signal
from extender_service.command import cli
from extender_service.command.schedule.scheduler_program import SchedulerProgram

end = SchedulerProgram._end

async def gets_a_signal(program, tasks):
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(60)

def gets_another(program):
    end(program)
    os.kill(os.getpid(), signal.SIGTERM)
    print("still there")

SchedulerProgram._get_ready = gets_a_signal
SchedulerProgram._end = gets_another
options = ["--emulated-version=1.34", "--master=http://127.0.0.1:1", "--leader-elect=false", "--secure-port=0"]
cli.main(["schedule", *options])
"""
    ended = run_as_first_process(program)
    assert (ended.returncode, ended.stdout) == (signal.SIGTERM, ""), ended.stderr
