import argparse
import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from extender_service.command import cli
from extender_service.command.option_parser import ENVIRONMENT_PREFIX
from extender_service.command.schedule import schedule
from extender_service.command.schedule.schedule_options import ScheduleOptions
from extender_service.command.setup import Setup
from extender_service.command.start_error import StartError
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.seams import THIS_MACHINE

Scheduled = Callable[..., ScheduleOptions]

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: of-the-file, renewDeadline: 8s}
clientConnection: {kubeconfig: of-the-file.kubeconfig, qps: 7}
"""


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(ENVIRONMENT_PREFIX):
            monkeypatch.delenv(name)


@pytest.fixture
def scheduled(monkeypatch: pytest.MonkeyPatch) -> Scheduled:
    """Runs `schedule` with some arguments, up to where the scheduler would start; returns its options."""

    def run(*arguments: str) -> ScheduleOptions:
        given: list[ScheduleOptions] = []

        def start(options: ScheduleOptions) -> int:
            given.append(options)
            return 0

        monkeypatch.setattr(schedule, "schedule", start)
        assert cli.main(["schedule", *arguments]) == 0
        return given[0]

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    return path


def configured(options: ScheduleOptions) -> KubeSchedulerConfiguration:
    def change(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
        return options.flags.change(config, has_file=options.config is not None)

    return Setup(options.config, options.plugins, rules=options.emulation.rules(), change=change).config


def test_the_defaults_are_kube_schedulers(scheduled: Scheduled) -> None:
    options = scheduled()
    assert (options.serving.bind_address, options.serving.port) == ("0.0.0.0", 10259)
    assert options.authorization.always_allowed_paths == ("/healthz", "/readyz", "/livez")
    assert options.authorization.allowed_cache_seconds == options.authorization.denied_cache_seconds == 10
    assert options.authentication.cache_seconds == 10
    assert options.authentication.username_headers == ("x-remote-user",)
    assert options.authentication.tolerates_lookup_failure
    assert not options.authentication.skips_lookup
    assert options.max_in_unschedulable_seconds == 300
    assert options.without_effect == ()
    election = configured(options).leader_election
    assert (election.leader_elect, election.resource_namespace, election.resource_name) == (
        True,
        "kube-system",
        "kube-scheduler",
    )
    assert (election.lease_duration.seconds, election.renew_deadline.seconds, election.retry_period.seconds) == (
        15,
        10,
        2,
    )


def test_flags_of_the_election_override_the_file_and_deprecated_ones_do_not(scheduled: Scheduled, file: Path) -> None:
    options = scheduled(
        f"--config={file}",
        "--leader-elect-resource-name=of-the-flag",
        "--leader-elect-retry-period=1s",
        "--kubeconfig=of-the-flag.kubeconfig",
        "--kube-api-qps=9",
        "--pod-max-in-unschedulable-pods-duration=1m",
    )
    config = configured(options)
    assert config.leader_election.resource_name == "of-the-flag"
    assert config.leader_election.retry_period.seconds == 1
    assert config.leader_election.renew_deadline.seconds == 8
    assert (config.client_connection.kubeconfig, config.client_connection.qps) == ("of-the-file.kubeconfig", 7)
    assert options.max_in_unschedulable_seconds == 60
    assert options.without_effect == ("--kube-api-qps", "--kubeconfig")


def test_deprecated_flags_count_without_a_file(scheduled: Scheduled) -> None:
    options = scheduled("--kubeconfig=F", "--kube-api-qps=9.5", "--kube-api-burst=11", "--profiling=false")
    config = configured(options)
    assert (config.client_connection.kubeconfig, config.client_connection.qps) == ("F", 9.5)
    assert config.client_connection.burst == 11
    assert not config.enable_profiling
    assert options.without_effect == ("--profiling",)


@pytest.mark.parametrize(("flag", "expected"), [("", True), ("--leader-elect=false", False), ("--leader-elect", True)])
def test_an_election_is_the_default(scheduled: Scheduled, flag: str, expected: bool) -> None:
    options = scheduled(*([flag] if flag else []))
    assert configured(options).leader_election.leader_elect is expected


@pytest.mark.parametrize("field", ["resourceName", "resourceNamespace"])
def test_a_lease_needs_a_name_and_a_namespace(scheduled: Scheduled, field: str) -> None:
    flag = {"resourceName": "--leader-elect-resource-name=", "resourceNamespace": "--leader-elect-resource-namespace="}
    with pytest.raises(StartError) as error:
        configured(scheduled(flag[field]))
    assert str(error.value) == f"leaderElection.{field}: Required value: {field} is required"


def test_a_rate_of_zero_is_that_of_client_go(scheduled: Scheduled) -> None:
    options = scheduled("--kube-api-qps=0", "--kube-api-burst=0")
    change = partial(options.flags.change, has_file=False)
    limit = Setup(None, [], change=change).scheduler_limit(THIS_MACHINE.clock)
    assert limit is not None

    async def taken() -> list[bool]:
        return [await asyncio.wait_for(limit.take(), 5) > 0 for _ in range(11)]

    assert asyncio.run(taken()) == [False] * 10 + [True]


@pytest.mark.parametrize("more", [[], ["--kube-api-qps=9.5"]])
def test_a_burst_of_zero_is_refused_beside_a_rate(scheduled: Scheduled, more: list[str]) -> None:
    with pytest.raises(StartError, match="--kube-api-burst: must be more than 0, unless --kube-api-qps is 0 or less"):
        configured(scheduled("--kube-api-burst=0", *more))


@pytest.mark.parametrize("rate", ["0", "-1"])
def test_a_burst_of_zero_is_accepted_without_a_rate(scheduled: Scheduled, rate: str) -> None:
    options = scheduled("--kube-api-burst=0", f"--kube-api-qps={rate}")
    assert configured(options).client_connection.burst == 0


def test_times_that_do_not_fit_are_refused_as_those_of_a_file(scheduled: Scheduled) -> None:
    with pytest.raises(StartError, match=r"leaderElection\.leaseDuration"):
        configured(scheduled("--leader-elect-lease-duration=5s"))


def test_plugins_have_the_limits_of_serve(scheduled: Scheduled) -> None:
    options = scheduled()
    assert (options.decision_seconds, options.watchdog_seconds) == (None, 30)
    options = scheduled("--decision-timeout=800ms", "--watchdog-timeout=0")
    assert (options.decision_seconds, options.watchdog_seconds) == (0.8, 0)


def test_lists_are_separated_by_commas_or_repeated(scheduled: Scheduled) -> None:
    options = scheduled(
        "--authorization-always-allow-paths=/metrics,/configz",
        "--authorization-always-allow-paths=/healthz",
        "--requestheader-group-headers=X-Group",
        "--requestheader-uid-headers=X-Remote-Uid,X-Uid",
        "--requestheader-allowed-names=front-proxy,other",
    )
    assert options.authorization.always_allowed_paths == ("/metrics", "/configz", "/healthz")
    assert options.authentication.group_headers == ("X-Group",)
    assert options.authentication.uid_headers == ("X-Remote-Uid", "X-Uid")
    assert options.authentication.request_header_names == ("front-proxy", "other")


# The flags of kube-scheduler v1.31.1, and what came later up to v1.37.2 (cmd/kube-scheduler/app, apiserver and
# component-base).
FLAGS = {
    31: """
        allow-metric-labels allow-metric-labels-manifest authentication-kubeconfig authentication-skip-lookup
        authentication-token-webhook-cache-ttl authentication-tolerate-lookup-failure authorization-always-allow-paths
        authorization-kubeconfig authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
        bind-address cert-dir client-ca-file config contention-profiling disable-http2-serving disabled-metrics
        emulated-version feature-gates help http2-max-streams-per-connection kube-api-burst kube-api-content-type
        kube-api-qps kubeconfig leader-elect leader-elect-lease-duration leader-elect-renew-deadline
        leader-elect-resource-lock leader-elect-resource-name leader-elect-resource-namespace leader-elect-retry-period
        log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size
        log-text-split-stream logging-format master permit-address-sharing permit-port-sharing
        pod-max-in-unschedulable-pods-duration profiling requestheader-allowed-names requestheader-client-ca-file
        requestheader-extra-headers-prefix requestheader-group-headers requestheader-username-headers secure-port
        show-hidden-metrics-for-version tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file
        tls-sni-cert-key v version vmodule write-config-to
    """,
    32: "requestheader-uid-headers",
    35: "min-compatibility-version",
    36: "tls-curve-preferences",
}


@pytest.mark.parametrize("minor", FLAGS)
def test_every_flag_of_kube_scheduler_is_known(minor: int) -> None:
    [commands] = [each for each in cli.parser()._actions if isinstance(each, argparse._SubParsersAction)]
    known = {name for action in commands.choices["schedule"]._actions for name in action.option_strings}
    assert [flag for flag in FLAGS[minor].split() if f"--{flag}" not in known] == []


def test_certificates_by_name_are_refused_with_what_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["schedule", "--tls-sni-cert-key=a.crt,a.key:example.com"])
    assert ended.value.code == 2
    said = "argument --tls-sni-cert-key: not supported: the certificate of --tls-cert-file is served under every name"
    assert said in capsys.readouterr().err


def test_flags_without_a_meaning_here_are_accepted_and_named(scheduled: Scheduled) -> None:
    options = scheduled(
        "--http2-max-streams-per-connection=7",
        "--log-json-info-buffer-size=1Ki",
        "--log-json-split-stream",
        "--min-compatibility-version=1.30",
        "--tls-curve-preferences=29,4588",
        "--vmodule=x=2",
        "--contention-profiling",
        "--permit-address-sharing",
        "--logging-format=text",
        "--v=4",
    )
    assert options.without_effect == (
        "--contention-profiling",
        "--http2-max-streams-per-connection",
        "--log-json-info-buffer-size",
        "--log-json-split-stream",
        "--min-compatibility-version",
        "--permit-address-sharing",
        "--tls-curve-preferences",
        "--vmodule",
    )


def test_the_form_of_what_is_printed_has_no_effect_where_nothing_is(scheduled: Scheduled) -> None:
    assert scheduled("-o", "json").without_effect == ("--output",)


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--secure-port=70000", "argument --secure-port: '70000' is not a port: give a number from 0 to 65535"),
        ("--bind-address=host", "argument --bind-address: 'host' is not an IP address"),
        ("--leader-elect=maybe", "argument --leader-elect: 'maybe' is neither true nor false"),
        ("--kube-api-qps=nan", "argument --kube-api-qps: 'nan' is not a number"),
        ("--kube-api-qps=inf", "argument --kube-api-qps: 'inf' is not a number"),
        ("--leader-elect-retry-period=2", "argument --leader-elect-retry-period: missing unit in duration"),
        ("--kube-api-burst=x", "argument --kube-api-burst: 'x' is not a whole number"),
        ("--decision-timeout=0s", "argument --decision-timeout: '0s' must be more than 0"),
        ("--watchdog-timeout=-1s", "argument --watchdog-timeout: '-1s' is negative"),
    ],
)
def test_a_wrong_value_is_refused(argument: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["schedule", argument])
    assert problem in capsys.readouterr().err


def test_the_effective_configuration_is_written(tmp_path: Path, file: Path) -> None:
    written = tmp_path / "written.yaml"
    arguments = [f"--config={file}", f"--write-config-to={written}", "--leader-elect-resource-name=mine"]
    assert cli.main(["schedule", *arguments]) == 0
    config = yaml.safe_load(written.read_text())
    assert config["leaderElection"]["resourceName"] == "mine"
    assert config["leaderElection"]["leaseDuration"] == "15s"
    assert config["profiles"][0]["schedulerName"] == "default-scheduler"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schedule", f"--write-config-to={tmp_path}/no/file"]) == 1
    assert "--write-config-to: " in capsys.readouterr().err
