import logging

import pytest

from extender_service.command.serve.config_warnings import warn_of_fields, warn_of_missing_filters
from extender_service.config.loading import default_config, parse_config
from extender_service.framework.profile import Profile
from extender_service.plugins.in_tree import ARGS_TYPES
from tests.support.stub_plugins import Stub

TYPE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OF_KUBE_SCHEDULER = """
parallelism: 8
leaderElection: {leaderElect: true}
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf, qps: 100}
enableProfiling: false
percentageOfNodesToScore: 50
podMaxBackoffSeconds: 5
profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 10}]
extenders: [{urlPrefix: 'http://127.0.0.1:8888', filterVerb: filter}]
"""


def warned(caplog: pytest.LogCaptureFixture, field: str) -> list[str]:
    """The one field of each warning."""
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return [vars(record)[field] for record in caplog.records]


def test_fields_that_only_kube_scheduler_reads_are_named_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_fields(parse_config(TYPE + OF_KUBE_SCHEDULER, ARGS_TYPES))
    [fields] = warned(caplog, "fields")
    assert fields == (
        "parallelism, leaderElection, enableProfiling, percentageOfNodesToScore, podMaxBackoffSeconds, extenders, "
        "clientConnection.kubeconfig, profiles[].percentageOfNodesToScore"
    )


@pytest.mark.parametrize(
    "fields",
    ["", "profiles: [{schedulerName: a, plugins: {score: {disabled: [{name: '*'}]}}}]", "clientConnection: {burst: 9}"],
)
def test_fields_that_count_are_not_named(caplog: pytest.LogCaptureFixture, fields: str) -> None:
    warn_of_fields(parse_config(f"{TYPE}{fields}\n", ARGS_TYPES))
    warn_of_fields(default_config(ARGS_TYPES))
    assert warned(caplog, "fields") == []


def test_what_extenders_manage_counts(caplog: pytest.LogCaptureFixture) -> None:
    managed = "[{name: example.com/gpu, ignoredByScheduler: true}]"
    fields = f"extenders: [{{urlPrefix: a, managedResources: {managed}}}]\nenableContentionProfiling: false\n"
    warn_of_fields(parse_config(TYPE + fields, ARGS_TYPES))
    assert warned(caplog, "fields") == ["enableContentionProfiling, extenders (except managedResources)"]


def test_profiles_without_a_filter_are_named(caplog: pytest.LogCaptureFixture) -> None:
    filtering = Profile("filtering", {"filter": [(Stub("Filters"), 0)]})
    warn_of_missing_filters([filtering])
    assert warned(caplog, "profiles") == []
    warn_of_missing_filters([Profile("a", {}), filtering, Profile("b", {"score": [(Stub("Scores"), 1)]})])
    assert warned(caplog, "profiles") == ["a, b"]
