"""Cases for the oracle of what was witnessed, and what each verdict says of what the scheduler did."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from extender_service.kube.writing.event_recorder import cut_note
from tests.conformance.cases import Verdict
from tests.conformance.oracle import Reference
from tests.worlds.api_server.etcd import Item
from tests.worlds.api_server.kinds import PODS, Kind
from tests.worlds.judging.knowledge import Knowledge
from tests.worlds.judging.witness import Outcome, WitnessedDecision

Object = dict[str, Any]
_FAILED: Final = "INFO cannot schedule a pod pod="
_LEFT_OUT: Final = re.compile(r"node\(s\) didn't satisfy plugin\(s\) \[[^\]]*\]")


class OracleCase(msgspec.Struct):
    """A cluster and a pod, for the oracle; `objects` are names of `definitions`."""

    name: str
    pod: Object
    objects: list[str]
    definitions: dict[str, Object]


class WitnessedCase(OracleCase):
    """A decision as a case of a release, and what was done: where the pod was placed, or the node and victims of
    preemption, or the reason that was reported.

    `reason` is None if none was: `serve` reports none itself, and a process may end before it does.
    """

    minor: int
    outcome: Outcome
    nodes: int
    node: str
    victims: list[str]
    reason: str | None


def case_of(seed: int, minor: int, number: int, decision: WitnessedDecision, history: Sequence[str]) -> WitnessedCase:
    """Return the case of a decision. `history` are the lines of its world, `minor` is the release of it."""
    definitions = definitions_of(seed, decision.known)
    return WitnessedCase(
        name=f"seed {seed} at {decision.at:.6f} ({number}): {decision.who} on {decision.pod.key}",
        pod=_nominated(decision.pod, decision.nominated_for),
        objects=[*definitions],
        definitions=definitions,
        minor=minor,
        outcome=decision.outcome,
        nodes=sum(kind.name == "Node" for kind, _ in decision.known.objects),
        node=decision.node,
        victims=[*decision.victims],
        reason=_reason(decision, history) if decision.reports and decision.outcome == "pending" else None,
    )


def definitions_of(seed: int, known: Knowledge) -> dict[str, Object]:
    """Return the objects that a program knew, by names that are theirs alone."""
    definitions: dict[str, Object] = {}
    for kind, item in known.objects:
        definitions[f"{seed} {kind.name} {item.key} {item.revision}"] = whole(kind, item)
    for item, node in known.counted:
        definitions[f"{seed} Pod {item.key} {item.revision} on {node}"] = _on_node(item, node)
    for item, node in known.nominated:
        definitions[f"{seed} Pod {item.key} {item.revision} for {node}"] = _nominated(item, node)
    return definitions


def oracle_input(cases: Sequence[OracleCase]) -> bytes:
    """Return the cases as the oracle reads them; each object is written once."""
    written: set[str] = set()
    lines = []
    for case in cases:
        new = {key: value for key, value in case.definitions.items() if key not in written}
        written |= new.keys()
        lines.append(msgspec.json.encode({"define": new}))
        lines.append(msgspec.json.encode({"name": case.name, "pod": case.pod, "objects": case.objects}))
    return b"\n".join(lines) + b"\n"


def differences(case: WitnessedCase, verdict: Verdict) -> Iterator[str]:
    """Yield what the reference would have done otherwise. Of a pod that was placed, it says whether the node is
    feasible; which of these is the best, is not compared."""
    if error := verdict.get("error") or verdict.get("cycleError"):
        yield f"the reference fails: {error}"
        return
    if gate := verdict.get("preEnqueue"):
        yield f"the reference does not try it: {gate['reasons']}"
        return
    if case.outcome == "placed":
        if case.node not in verdict["feasible"]:
            yield f"it was placed on {case.node}, it fits on {verdict['feasible'] or 'no node'} by the reference"
        return
    if verdict["feasible"]:
        yield f"it fits on {verdict['feasible'][:3]}"
        return
    preempt = verdict["preempt"]
    victims = {candidate["node"]: candidate["victims"] for candidate in preempt["candidates"]}
    is_judged = not (case.node and is_left_to_chance(case))
    if bool(case.node) != bool(preempt["tied"]) or (is_judged and case.node not in (preempt["tied"] or [""])):
        theirs = preempt["tied"] or "none"
        yield f"it was nominated for {case.node or 'no node'}, the reference nominates it for {theirs}"
    elif case.node and is_judged and sorted(case.victims) != sorted(victims[case.node]):
        yield f"{case.victims} were to go from {case.node}, the reference deletes {victims[case.node]}"
    if case.reason is not None and case.reason != (expected := reason_of(verdict, case)):
        yield f"the reason was {case.reason!r}, the reference's is {expected!r}"


def is_left_to_chance(case: OracleCase) -> bool:
    """Return whether two pods on a node, which may be victims, have the same priority and start time, or none."""
    priority = case.pod["spec"].get("priority", 0)
    importances = Counter(
        (spec["nodeName"], spec.get("priority", 0), each["status"].get("startTime"))
        for each in case.definitions.values()
        if each["kind"] == "Pod" and (spec := each["spec"]).get("nodeName") and spec.get("priority", 0) < priority
    )
    return any(count > 1 for count in importances.values())


def reason_of(verdict: Verdict, case: WitnessedCase) -> str:
    """Return the reference's reason for a pod that fits nowhere (FitError in framework/types.go), as far as an event
    takes it.

    From 1.32 on, it counts the nodes that PreFilter left out. The verdict does not say which plugins that were: here
    they are those of the reason that was reported.
    """
    pre_filter, statuses = verdict["preFilter"], verdict["filter"] or {}
    text = f"0/{case.nodes} nodes are available:"
    if pre_filter["code"] != "Success":
        reasons = ", ".join(pre_filter["reasons"])
    else:
        counts = Counter(reason for status in statuses.values() for reason in status["reasons"])
        left_out = case.nodes - len(statuses)
        if left_out and Reference(case.minor).rules.left_out_nodes_counted:
            named = _LEFT_OUT.search(case.reason or "")
            counts["node(s) that PreFilter left out" if named is None else named[0]] += left_out
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    if reasons:
        text += f" {reasons}."
    after = ", ".join(verdict["preempt"]["reasons"])
    return " ".join(cut_note(f"{text} {after}" if after else text).split())


def _reason(decision: WitnessedDecision, history: Sequence[str]) -> str | None:
    """Return the reason that the scheduler logged for a pod next."""
    start = re.compile(rf"\S+ \d+ {re.escape(decision.who)}: {_FAILED}{re.escape(decision.pod.key)} reason=\S+ why=")
    for line in history[decision.line :]:
        if match := start.match(line):
            return line[match.end() :]
        if line.partition(": ")[0].endswith(decision.who) and line.endswith(": starts"):
            return None
    return None


def whole(kind: Kind, item: Item) -> Object:
    """Return an object as a client sends it."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **item.value}


def _on_node(item: Item, node: str) -> Object:
    pod = whole(PODS, item)
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def _nominated(item: Item, node: str) -> Object:
    """Return a pod as it is nominated for a node, or for none if that is empty."""
    pod = whole(PODS, item)
    status = {name: value for name, value in pod["status"].items() if name != "nominatedNodeName"}
    return {**pod, "status": {**status, **({"nominatedNodeName": node} if node else {})}}
