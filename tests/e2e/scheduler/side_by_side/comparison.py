"""Compares what two schedulers made of one scenario. Where several nodes are best, each may take any of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.conformance.cases import Verdict, read_verdicts
from tests.e2e.scheduler.side_by_side.recording import Placement, Snapshot

AskOracle = Callable[[bytes], bytes]


class Comparison(NamedTuple):
    """The differences, as texts; how many placements the oracle judged, and how many of these had one best node.

    If the scenario was repeated, `at_first` are the differences of the first time.
    """

    differences: list[str]
    placements: int
    without_choice: int
    at_first: Sequence[str] = ()


def compare(ask_oracle: AskOracle, stock: Sequence[Snapshot], ours: Sequence[Snapshot]) -> Comparison:
    """Compare two records of a scenario, of kube-scheduler's and of this program's."""
    differences = list[str]()
    placements = [
        placement for snapshots in (stock, ours) for snapshot in snapshots for placement in snapshot.placements
    ]
    best = dict(zip(map(id, placements), _best_nodes(ask_oracle, placements), strict=True))
    choices, seen = set[str](), set[str]()
    for placement in placements:
        nodes = best[id(placement)]
        if placement.node not in nodes:
            whose = "this program" if any(placement in snapshot.placements for snapshot in ours) else "kube-scheduler"
            differences.append(f"{whose} put {placement.pod} on {placement.node}; best are {sorted(nodes)}")
        if len(nodes) > 1:
            choices.add(placement.pod)
    for number, (one, other) in enumerate(zip(stock, ours, strict=True), start=1):
        for text in _unlike(_without_nodes_of(choices, one), _without_nodes_of(choices, other)):
            if text not in seen:  # what differs after one step often does after the next
                seen.add(text)
                differences.append(f"step {number}: {text}")
    judged = [best[id(placement)] for placement in placements if placement.cases]
    return Comparison(differences, len(judged), sum(len(nodes) == 1 for nodes in judged))


def _best_nodes(ask_oracle: AskOracle, placements: Sequence[Placement]) -> Iterator[frozenset[str]]:
    """Return the best nodes of each placement; of a profile that the oracle does not run, the node itself.

    Of several cases, those of the first count of which its node is one of the best.
    """
    cases = [case for placement in placements for case in placement.cases]
    verdicts = iter(read_verdicts(iter(ask_oracle(b"\n".join(cases)).splitlines())) if cases else [])
    for placement in placements:
        best = [_best(next(verdicts)) for _ in placement.cases] or [frozenset([placement.node])]
        yield next((nodes for nodes in best if placement.node in nodes), best[0])


def _best(verdict: Verdict) -> frozenset[str]:
    """Return the best nodes; none if the oracle places the pod nowhere."""
    totals: dict[str, int] = verdict.get("total") or {}
    if not totals:
        return frozenset(verdict.get("feasible") or ())
    return frozenset(node for node, total in totals.items() if total == max(totals.values()))


def _without_nodes_of(pods: set[str], snapshot: Snapshot) -> dict[str, Any]:
    """Return objects and events by a text that names them; pods with a choice are on any node."""
    found = dict(snapshot.objects)
    for pod in pods:
        if (key := f"Pod {pod}") in found and found[key]["node"]:
            found[key] = {**found[key], "node": "any"}
    for event in snapshot.events:
        fields = dict(event)
        if fields["reason"] == "Scheduled" and fields["regarding"] in pods:
            fields["note"] = fields["note"].rpartition(" ")[0]
        found["Event " + ", ".join(f"{key}: {value}" for key, value in fields.items())] = "there"
    return found


def _unlike(stock: dict[str, Any], ours: dict[str, Any]) -> Iterator[str]:
    for key in sorted(stock.keys() | ours.keys()):
        if stock.get(key) != ours.get(key):
            yield f"{key}\n      kube-scheduler: {stock.get(key)}\n      this program:   {ours.get(key)}"
