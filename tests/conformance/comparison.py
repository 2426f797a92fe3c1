"""Compares two verdicts, field by field."""

from collections.abc import Collection, Iterator
from typing import Any

from tests.conformance.cases import Verdict

# What a verdict holds.
FIELDS = (
    "preEnqueue",
    "preFilter",
    "filter",
    "filterByPlugin",
    "cycleError",
    "feasible",
    "preScore",
    "raw",
    "score",
    "total",
    "preempt",
)


def differences(ours: Verdict, reference: Verdict, only: Collection[str]) -> Iterator[str]:
    """Yield what differs, one line each; with `only`, differences that concern other plugins do not count."""
    if only:
        ours, reference = _restricted(ours, reference, only), _restricted(reference, reference, only)
    for field in FIELDS:
        yield from _differ(field, ours.get(field), reference.get(field))


def _differ(path: str, ours: Any, reference: Any) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(reference, dict):
        for key in sorted({*ours, *reference}):
            yield from _differ(f"{path}.{key}", ours.get(key), reference.get(key))
    elif ours != reference:
        yield f"{path}: ours {ours!r}, reference {reference!r}"


def _restricted(verdict: Verdict, reference: Verdict, only: Collection[str]) -> Verdict:
    """Keep what these plugins said.

    Totals, feasible nodes and rejections by a later plugin depend on all plugins, so of the first rejections only those
    count that the reference ascribes to one of these.
    """
    filter_by_plugin = verdict.get("filterByPlugin")
    pre_filter = verdict.get("preFilter")
    pre_score = verdict.get("preScore")
    reference_filter = reference.get("filter") or {}
    return {
        "preEnqueue": verdict.get("preEnqueue"),
        "preFilter": pre_filter and {"skipped": [name for name in pre_filter["skipped"] if name in only]},
        "filterByPlugin": filter_by_plugin and _of(filter_by_plugin, only),
        "filter": verdict.get("filter")
        and {
            node: verdict["filter"].get(node) for node, status in reference_filter.items() if status["plugin"] in only
        },
        "preScore": pre_score and {"skipped": [name for name in pre_score["skipped"] if name in only]},
        "raw": verdict.get("raw") and _of(verdict["raw"], only),
        "score": verdict.get("score") and _of(verdict["score"], only),
    }


def _of(by_plugin: dict[str, Any], only: Collection[str]) -> dict[str, Any]:
    return {plugin: value for plugin, value in by_plugin.items() if plugin in only}
