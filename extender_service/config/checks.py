"""Rules for a whole configuration (kube-scheduler's apis/config/validation/validation.go), each naming its field."""

from collections.abc import Iterator, Sequence

from extender_service.config.args import API_VERSION, PluginArgs
from extender_service.config.durations import Duration
from extender_service.config.problems import Problem, duplicate, invalid, invalid_label_key, out_of_range, required
from extender_service.config.rules import Rules
from extender_service.config.types import (
    ClientConnectionConfiguration,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginSet,
)
from extender_service.kube.parsing.resource_names import is_extended_resource

# In-tree plugins that a v1 configuration cannot name, other than in multiPoint.
_REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
_REMOVED = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
_SAME_QUEUE_SORT = "queueSort must be the same for all profiles"
_SAME = "must be the same for all profiles"
_MOST_PERCENT = 100


def validate(config: KubeSchedulerConfiguration, rules: Rules) -> Iterator[Problem]:
    """Yield all problems for which kube-scheduler refuses to load a configuration, whose defaults must be set."""
    yield from _check_client_connection(config.client_connection)
    yield from _check_leader_election(config.leader_election, rules)
    if config.parallelism <= 0:
        yield invalid("parallelism", config.parallelism, "should be an integer value greater than zero")
    first_of_name: dict[str, int] = {}
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}]"
        yield from _check_profile(profile, path, rules)
        if profile.scheduler_name in first_of_name:
            yield duplicate(f"{path}.schedulerName", profile.scheduler_name)
        first_of_name[profile.scheduler_name] = index
    yield from _check_common_queue_sort(config.profiles, rules)
    yield from _check_percentage(config.percentage_of_nodes_to_score, "percentageOfNodesToScore")
    if config.pod_initial_backoff_seconds <= 0:
        yield invalid("podInitialBackoffSeconds", config.pod_initial_backoff_seconds, "must be greater than 0")
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", config.pod_max_backoff_seconds, detail)
    yield from _check_extenders(config.extenders, rules)


def validate_made(config: KubeSchedulerConfiguration, rules: Rules) -> Iterator[Problem]:
    """Yield the problems that kube-scheduler finds only when it makes a plugin: in arguments of enabled plugins."""
    for index, profile in enumerate(config.profiles):
        names = profile.plugins.enabled_names()
        for position, each in enumerate(profile.plugin_config):
            if isinstance(each.args, PluginArgs) and not each.args.checked_when_off and each.name in names:
                yield from each.args.check(f"profiles[{index}].pluginConfig[{position}].args", rules)


def _check_client_connection(connection: ClientConnectionConfiguration) -> Iterator[Problem]:
    if connection.burst < 0:
        yield invalid("clientConnection.burst", connection.burst, "must be non-negative")


def _check_leader_election(election: LeaderElectionConfiguration, rules: Rules) -> Iterator[Problem]:
    if not election.leader_elect:
        return
    for name, duration in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if duration <= 0:
            yield invalid(f"leaderElection.{name}", _shown(duration, rules), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        detail = "LeaseDuration must be greater than RenewDeadline"
        if rules.fields_named_once:
            detail = "must be greater than `RenewDeadline`"
        yield invalid("leaderElection.leaseDuration", _shown(election.renew_deadline, rules), detail)
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        yield invalid("leaderElection.resourceLock", election.resource_lock, detail)
    if not election.resource_namespace:
        yield required("leaderElection.resourceNamespace", "resourceNamespace is required")
    if not election.resource_name:
        yield required("leaderElection.resourceName", "resourceName is required")


def _shown(duration: Duration, rules: Rules) -> Duration | str:
    return str(duration) if rules.values_as_json else duration


def _check_profile(profile: KubeSchedulerProfile, path: str, rules: Rules) -> Iterator[Problem]:
    if not profile.scheduler_name:
        yield required(f"{path}.schedulerName", "give each profile a name")
    if profile.percentage_of_nodes_to_score is not None:
        yield from _check_percentage(profile.percentage_of_nodes_to_score, f"{path}.percentageOfNodesToScore")
    for point, is_known in _later_points(rules).items():
        if point in profile.plugins.sets() and not is_known:
            yield Problem(f"{path}.plugins.{point}", f"unknown field: {rules.release} does not have it")
    for point, plugins in profile.plugins.sets().items():
        if point != "multiPoint":
            yield from _check_removed(plugins, f"{path}.plugins.{point}")
    seen: set[str] = set()
    for index, each in enumerate(profile.plugin_config):
        here = f"{path}.pluginConfig[{index}]"
        if each.name in seen:
            yield duplicate(here, each.name)
        seen.add(each.name)
        if each.name in _REMOVED_PLUGINS:
            yield invalid(here, each.name, _REMOVED)
        elif isinstance(each.args, PluginArgs) and each.args.checked_when_off:
            yield from each.args.check(f"{here}.args", rules)


def _later_points(rules: Rules) -> dict[str, bool]:
    """Return the extension points that came after v1.31, and whether a release has them."""
    return {
        "placementGenerate": rules.placement_points,
        "placementScore": rules.placement_points,
        "podGroupPostFilter": rules.group_post_filter_point,
    }


def _check_removed(plugins: PluginSet, path: str) -> Iterator[Problem]:
    for index, plugin in enumerate(plugins.enabled):
        if plugin.name in _REMOVED_PLUGINS:
            yield invalid(f"{path}.enabled[{index}]", plugin.name, _REMOVED)


def _check_common_queue_sort(profiles: Sequence[KubeSchedulerProfile], rules: Rules) -> Iterator[Problem]:
    """Check that all profiles sort the queue alike, because all pods wait in one queue."""
    first = profiles[0]
    enabled = first.plugins.queue_sort.enabled
    if len(enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        yield invalid("profiles[0].plugins.queueSort.Enabled", len(enabled), detail)
    name = enabled[0].name if enabled else ""
    for index, profile in enumerate(profiles[1:], start=1):
        queue_sort = profile.plugins.queue_sort
        if queue_sort != first.plugins.queue_sort:
            path = f"profiles[{index}].plugins.queueSort"
            detail = _SAME if rules.fields_named_once else _SAME_QUEUE_SORT
            yield invalid(path, queue_sort.model_dump(by_alias=True), detail)
        for each in profile.plugin_config:
            if each.name == name and each.args != first.args(name):
                yield invalid(f"profiles[{index}].pluginConfig.args", each.args, _SAME_QUEUE_SORT)


def _check_percentage(percentage: int, path: str) -> Iterator[Problem]:
    if not 0 <= percentage <= _MOST_PERCENT:
        yield out_of_range(path, percentage, f"[0-{_MOST_PERCENT}]")


def _check_extenders(extenders: Sequence[Extender], rules: Rules) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        for position, resource in enumerate(extender.managed_resources):
            here = f"{path}.managedResources[{position}].name"
            yield from _check_extended_resource(resource.name, here, rules)
            if resource.name in seen:
                yield invalid(here, resource.name, "duplicate extender managed resource name")
            seen.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid("extenders", found, "only one extender can implement bind")


def _check_extended_resource(name: str, path: str, rules: Rules) -> Iterator[Problem]:
    if faults := list(invalid_label_key(path, name, rules.wording)):
        yield from faults
    elif not is_extended_resource(name):
        yield invalid(path, name, "is an invalid extended resource name")
