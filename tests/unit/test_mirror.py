"""Each module has a test module at the mirrored path; a table says which have none, and which tests cover those."""

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parents[1] / "extender_service"

TYPES = "types alone: whatever decodes or encodes them shows that they are right"
HINTS = "tests/lockstep/hints"
WITHOUT = {
    "cluster/pods/pod_changes.py": "pods/test_pod_counts.py and test_running_terms.py: they follow it",
    "cluster/structures/extremes.py": "plugins/shared/test_normalization.py and test_integer_division.py",
    "cluster/view/hypothetical_columns.py": "view/test_hypothetical.py",
    "cluster/nodes/node_memory.py": "view/test_node_view.py and test_caches.py",
    "framework/filtering.py": "framework/test_runtime.py",
    "framework/guard.py": "framework/test_runtime.py and scheduling/test_binding_cycle.py",
    "command/option_parser.py": "command/test_cli.py",
    "command/option_values.py": "command/test_cli.py and schedule/test_schedule_options.py",
    "command/schedule/place_options.py": "command/schedule/test_place_file.py",
    "command/schedule/scheduler_program.py": "command/schedule/test_schedule.py and tests/e2e/scheduler",
    "command/serve/limit_options.py": "command/test_cli.py",
    "command/serve/serve_options.py": "command/test_cli.py",
    "command/shared_options.py": "command/test_cli.py and schedule/test_schedule_options.py",
    "command/start_error.py": TYPES,
    "config/checks.py": "config/test_golden.py",
    "config/default_decision_time.py": "a number: command/test_cli.py and schedule/test_decision_time.py",
    "config/defaulting.py": "config/test_golden.py",
    "config/model.py": "config/test_golden.py and test_syntax.py",
    "config/problems.py": "config/test_golden.py",
    "config/reading.py": "config/test_golden.py",
    "config/types.py": TYPES,
    "extender/overload/overload.py": "extender/test_calls.py and test_app.py",
    "extender/reporting/observation.py": TYPES,
    "extender/service.py": "the tests of the verbs: support/clusters/extender_world.py makes it",
    "extender/wire/bodies.py": TYPES,
    "framework/handle.py": "tests/docs and examples",
    "framework/preemption/filtering_again.py": "framework/test_runtime.py and preemption/test_dry_run.py",
    "framework/profile.py": "framework/test_runtime.py and registry/test_registry.py",
    "framework/scores.py": "framework/test_runtime.py and scheduling/reuse/test_runs.py",
    "kube/credentials/errors.py": TYPES,
    "kube/resources/nodes_with_json.py": "kube/resources/test_pods_by_need.py",
    "kube/parsing/go_names.py": "extender/wire/test_decoding.py and scheduler/extenders/test_agreed_preemption.py",
    "kube/resources/raw_items.py": "kube/resources/test_pods_by_need.py",
    "kube/parsing/resource_names.py": "cluster/amounts/test_dimensions.py and plugins/node_resources",
    "kube/types/core.py": TYPES,
    "kube/types/extender_api.py": "extender/wire/test_decoding.py",
    "kube/types/pending_pods.py": "queue/test_pod_update.py",
    "kube/types/policy.py": TYPES,
    "kube/types/storage.py": TYPES,
    "kube/types/workloads.py": TYPES,
    "kube/watching/store.py": "a protocol: kube/watching/test_reflector.py and cluster/sources/test_stores.py",
    "observability/configz.py": "tests/e2e/scheduler/test_secure_serving.py",
    "observability/preemption_metrics.py": "scheduler/metrics/test_prometheus.py and extender/test_preemption.py",
    "plugins/shared/event_objects.py": HINTS,
    "plugins/volume_binding/hints.py": HINTS,
    "plugins/inter_pod_affinity/filtering.py": "inter_pod_affinity/test_plugin.py",
    "plugins/inter_pod_affinity/scoring.py": "inter_pod_affinity/test_plugin.py",
    "plugins/inter_pod_affinity/terms.py": "inter_pod_affinity/test_plugin.py",
    "plugins/pod_topology_spread/args.py": "config/test_golden.py",
    "plugins/pod_topology_spread/constraints.py": "pod_topology_spread/test_plugin.py",
    "plugins/pod_topology_spread/filtering.py": "pod_topology_spread/test_plugin.py",
    "plugins/pod_topology_spread/scoring.py": "pod_topology_spread/test_plugin.py",
    "queue/queue_metrics.py": TYPES,
    "queue/queued_pod.py": TYPES,
    "kube/credentials/files.py": "credentials/test_identity.py and test_server_trust.py",
    "cluster/state/nominated_columns.py": "cluster/state/test_nominations.py and scheduler/test_nominated_pods.py",
    "scheduling/reuse/next_decision.py": "reuse/test_runs.py",
    "scheduling/reuse/per_node_answers.py": "reuse/test_runs.py",
    "scheduling/reuse/plugins_by_reach.py": "reuse/test_runs.py",
    "scheduling/reuse/run.py": "reuse/test_runs.py",
    "scheduling/reuse/states_ahead.py": "reuse/test_runs.py",
    "scheduling/under_way.py": TYPES,
    "scheduling/question.py": TYPES,
    "scheduling/pod_patches.py": "scheduler/test_pod_status.py and extender/test_preemption.py",
    "scheduler/metrics/event_timing.py": "scheduler/test_event_handlers.py and metrics/test_prometheus.py",
    "scheduling/pod_events.py": "scheduler/test_scheduler.py, test_failure_handler.py and test_preempting.py",
    "kube/connection/slices.py": "connection/test_event_stream.py and watching/test_reflector.py",
    "serving/callers/users.py": TYPES,
    "serving/open_files.py": "command/serve/test_serve.py",
    "scheduler/metrics/attempts.py": "scheduler/metrics/test_prometheus.py",
    "serving/scope.py": TYPES,
    "serving/secure_http.py": "tests/e2e/scheduler/test_secure_serving.py",
    "serving/socket_state.py": "serving/test_limited_http.py",
    "serving/upgrades.py": "serving/test_limited_http.py",
    "simulation/pod_outcome.py": TYPES,
    "testing/builders.py": "testing/test_trial.py and examples",
}
# What no single module does.
OF_SEVERAL = {
    "cluster/sources/test_quiet_cluster.py",
    "cluster/state/test_cluster_histories.py",
    "cluster/state/test_cluster_storage.py",
    "config/test_golden.py",
    "extender/test_histories.py",
    "test_mirror.py",
    "test_names.py",
    "test_slow_requests.py",
}


def test_each_module_has_a_test_module_or_a_reason_to_have_none() -> None:
    modules = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
    untested = {str(module) for module in modules if not (TESTS / module.parent / f"test_{module.name}").exists()}
    assert untested == WITHOUT.keys()


def test_each_test_module_is_that_of_a_module() -> None:
    tests = {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py") if path.parts[-2] != "bench"}
    of_none = {str(test) for test in tests if not (PACKAGE / test.parent / test.name.removeprefix("test_")).exists()}
    assert of_none == OF_SEVERAL
