"""Compare releases of Kubernetes with their own plugins: python -m tests.conformance.compat [MINOR ...].

Examples show the rules of config/rules.py: the verdict on one differs with and without each of the rules that it
`shows`, in the release that brings the rule. Each release's own kube-scheduler judges all of them. So a rule that comes
too early or too late makes a difference.
"""

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from extender_service.config.problems import ConfigError
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, version_of
from extender_service.config.rules import Rules, rules_of
from tests.conformance import oracle
from tests.conformance.cases import Case, Verdict, read_cases, read_lines, read_verdicts
from tests.conformance.evaluation import evaluate
from tests.conformance.judgement import judge

MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)
EXAMPLES = Path(oracle.ORACLES[NEWEST_MINOR]) / "examples.jsonl"
RULES = [each.name for each in dataclasses.fields(Rules) if each.name != "release"]
# What oracles say of examples with fields or kinds that came later. In a configuration, that is a verdict, too.
_NOT_KNOWN = ("unknown field", "no kind ")
_OF_CONFIGURATION = "config: "

# Why no example shows a rule, and what checks it instead.
NO_EXAMPLE: Mapping[str, Sequence[str]] = {
    "hints": (
        "queueing_hints",
        "events_named_by_action",
        "toleration_in_singular",
        "other_updates_for_all",
        "own_changes_named",
        "hints_replace_checks",
        "hints_compare",
        "fewer_events_wake",
        "tainted_nodes_shown",
        "attachments_by_driver",
        "node_deletions_reported",
        "nominated_pods_free_room",
        "topologies_compared",
        "nominated_pods_count_near",
        "anti_affinity_of_others_wakes",
        "any_anti_affinity_term_wakes",
        "scale_up_reported",
        "raised_limits_wake",
    ),
    "queue": (
        "one_attempt_at_a_time",
        "own_changes_in_flight",
        "backoff_follows_attempts",
        "leaves_backoff_early",
        "backoff_includes_its_end",
        "gated_pods_come_in",
        "errors_back_off_apart",
        "gating_plugin_remembered",
        "backing_off_is_ungated",
        "gates_counted_once",
        "deleted_pods_uncounted",
        "leftovers_flushed_in_turn",
        "unknown_pods_added",
    ),
    "schedule": (
        "preemption_in_background",
        "preemptors_gated",
        "preemptors_wait_for_last_victim",
        "terminating_victims_left_alone",
        "victims_sent_back",
        "retries_preemptor_of_requeued_victim",
        "left_out_nodes_counted",
        "last_refusal_counts",
        "pre_bind_rejection_backs_off",
        "nominated_before_waits",
        "written_volumes_stay_assumed",
        "storage_named_by_resource",
        "conditions_have_generation",
        "deletion_frees_place",
        "bound_nominees_free_no_room",
        "failure_takes_nomination_back",
        "no_failure_event_for_recreated_pod",
        "bindings_retried",
        "conflicts_retried",
    ),
    "metrics": (
        "cache_size_renamed",
        "old_cache_size_gone",
        "in_flight_events_counted",
        "bound_after_flush_counted",
        "victims_counted_first",
        "idle_preemptions_uncounted",
        "idle_preemptions_counted",
        "preemption_time_hidden",
        "pod_changes_timed",
        "pod_level_resources_shown",
        "queued_entities_counted",
    ),
    "gate": (
        "compared_tolerations",
        "deferred_resizes",
        "device_status_of_claims",
        "has_binding_timeout",
        "has_storage_capacity_scoring",
        "missing_driver_rejection_is_opt_in",
        "groups_preempted",
        "pod_groups",
        "scores_volume_capacity",
    ),
    "refused": ("resource_claims", "first_pod_level_resources"),
    "words": ("fields_named_once",),
}


def first_minor(rule: str) -> int | None:
    """Return the first release that has a rule by default; None if none has."""
    return next((minor for minor in MINORS if getattr(rules_of(minor), rule)), None)


class Example(Case):
    """A small case, and the names of the rules that it shows."""

    shows: tuple[str, ...] = ()


def read_examples() -> list[Example]:
    """Return all examples."""
    decoder = msgspec.json.Decoder(Example)
    return [decoder.decode(line) for line in read_lines(EXAMPLES)]


def depends_on(case: Case, rule: str) -> bool:
    """Return whether the verdict on a case depends on a rule, in the release that brings it."""
    minor = first_minor(rule)
    if minor is None:
        return False
    rules = rules_of(minor)
    without = Rules(**{**dataclasses.asdict(rules), rule: False})
    return _outcome(case, rules) != _outcome(case, without)


def reason_for_no_example(rule: str) -> str:
    """Return the word for the reason why no example shows a rule; empty if one does."""
    return next((reason for reason, rules in NO_EXAMPLE.items() if rule in rules), "")


def _outcome(case: Case, rules: Rules) -> Verdict | None:
    """The verdict; None where the configuration of the case is refused."""
    try:
        return evaluate(case, rules)
    except ConfigError:
        return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how each release judges the examples, and what shows each rule; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.compat", description=__doc__)
    parser.add_argument("minors", nargs="*", type=int, default=oracle.JUDGED, help="default: all that have one")
    minors = parser.parse_args(arguments).minors
    lines = list(read_lines(EXAMPLES))
    results = {minor: _compare(lines, minor) for minor in minors}
    for minor, differences in results.items():
        wrong = {name: found for name, found in differences.items() if found}
        print(f"{version_of(minor)}: {len(differences)} of {len(lines)} examples are known, {len(wrong)} differ")
        for name, found in wrong.items():
            print(f"  {name}: {'; '.join(found[:3])}")
    print()
    examples = read_examples()
    for rule in RULES:
        print(f"{rule}: {_evidence(rule, [each.name for each in examples if rule in each.shows], results)}")
    return 1 if any(any(differences.values()) for differences in results.values()) else 0


def _compare(lines: Sequence[bytes], minor: int) -> dict[str, list[str]]:
    """The differences from that release's plugins, by example; examples that it cannot read are left out."""
    reference = oracle.Reference(minor)
    verdicts = read_verdicts(iter(oracle.ask(b"".join(lines), reference).splitlines()))
    known = [
        (case, verdict)
        for case, verdict in zip(read_cases(iter(lines)), verdicts, strict=True)
        if not _is_not_known(verdict.get("error", ""))
    ]
    cases, references = [case for case, _ in known], [verdict for _, verdict in known]
    judgements = judge(cases, references, (), reference.rules)
    return {each.name: [] if each.agrees else each.differences for each in judgements}


def _is_not_known(error: str) -> bool:
    return not error.startswith(_OF_CONFIGURATION) and any(text in error for text in _NOT_KNOWN)


def _evidence(rule: str, examples: Sequence[str], results: Mapping[int, Mapping[str, Sequence[str]]]) -> str:
    """What proves the release that brings a rule: examples on which it and the release before agree with theirs.

    A release that does not know the fields of an example cannot have the rule, either.
    """
    minor = first_minor(rule)
    if minor is None:
        return "off by default"
    if not examples:
        return f"from {version_of(minor)} on; no example shows it ({reason_for_no_example(rule)})"
    before, since = results.get(minor - 1), results.get(minor, {})
    proving = [name for name in examples if before is not None and not before.get(name) and since.get(name) == []]
    return f"from {version_of(minor)} on, shown by {', '.join(proving) or 'none that both releases judged alike'}"


if __name__ == "__main__":
    sys.exit(main())
