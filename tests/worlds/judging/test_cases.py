"""What the reference's verdicts say of decisions: of its reasons, and of what it does not try."""

import msgspec
import pytest

from tests.conformance.cases import Verdict
from tests.worlds.judging.cases import WitnessedCase, differences

PREEMPTION = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
LEFT_OUT = "2 node(s) didn't satisfy plugin(s) [NodeAffinity]"
HERE = f"0/3 nodes are available: 1 Insufficient cpu. {PREEMPTION}"
WITH_OTHERS = f"0/3 nodes are available: 1 Insufficient cpu, {LEFT_OUT}. {PREEMPTION}"
CASE = WitnessedCase("case", {"spec": {}, "status": {}}, [], {}, 31, "pending", 3, "", [], None)
# PreFilter names one of three nodes.
VERDICT: Verdict = {
    "feasible": [],
    "preFilter": {"code": "Success", "reasons": [], "nodeNames": ["node-0"]},
    "filter": {"node-0": {"code": "Unschedulable", "reasons": ["Insufficient cpu"]}},
    "preempt": {"candidates": [], "tied": [], "reasons": [PREEMPTION]},
}


def found(minor: int, reason: str) -> list[str]:
    return [*differences(msgspec.structs.replace(CASE, minor=minor, reason=reason), VERDICT)]


@pytest.mark.parametrize(("minor", "right", "wrong"), [(31, HERE, WITH_OTHERS), (32, WITH_OTHERS, HERE)])
def test_nodes_that_pre_filter_left_out_are_counted_from_1_32_on(minor: int, right: str, wrong: str) -> None:
    assert found(minor, right) == []
    (text,) = found(minor, wrong)
    assert text.startswith(f"the reason was {wrong!r}")


def test_a_reason_is_compared_as_far_as_an_event_takes_it() -> None:
    verdict = {**VERDICT, "filter": {"node-0": {"code": "Unschedulable", "reasons": ["x" * 2000]}}}
    whole = f"0/3 nodes are available: 1 {'x' * 2000}. {PREEMPTION}"
    assert [*differences(msgspec.structs.replace(CASE, reason=f"{whole[:1020]} ..."), verdict)] == []
    assert [*differences(msgspec.structs.replace(CASE, reason=whole), verdict)] != []


def test_a_pod_that_the_reference_would_not_try_is_reported() -> None:
    gate = {"plugin": "SchedulingGates", "reasons": ["waiting for scheduling gates: [a]"]}
    assert [*differences(CASE, {"preEnqueue": gate, "feasible": []})] == [
        "the reference does not try it: ['waiting for scheduling gates: [a]']"
    ]


@pytest.mark.parametrize(("feasible", "said"), [(["node-1"], "['node-1']"), ([], "no node")])
def test_a_node_that_the_reference_does_not_find_is_reported(feasible: list[str], said: str) -> None:
    placed = msgspec.structs.replace(CASE, outcome="placed", node="node-0")
    assert [*differences(placed, {"feasible": ["node-0"]})] == []
    assert [*differences(placed, {"feasible": feasible})] == [
        f"it was placed on node-0, it fits on {said} by the reference"
    ]
