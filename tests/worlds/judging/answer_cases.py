"""Cases for the oracle of what `serve` answered about preemption, and what each verdict says of the answer."""

from collections.abc import Iterator

from tests.conformance.cases import Verdict
from tests.worlds.api_server.kinds import PODS
from tests.worlds.judging.answers import Kept, WitnessedAnswer
from tests.worlds.judging.cases import OracleCase, definitions_of, is_left_to_chance, whole


class AnsweredCase(OracleCase):
    """What was answered about a node, as a case."""

    node: str
    kept: Kept
    victims: list[str]


def answered_case(seed: int, number: int, answer: WitnessedAnswer) -> AnsweredCase:
    """Return the case of an answer."""
    definitions = definitions_of(seed, answer.known)
    return AnsweredCase(
        name=f"seed {seed} at {answer.at:.6f} ({number}): service on {answer.pod.key} and {answer.node}",
        pod=whole(PODS, answer.pod),
        objects=[*definitions],
        definitions=definitions,
        node=answer.node,
        kept=answer.kept,
        victims=[*answer.victims],
    )


def wrong_answers(case: AnsweredCase, verdict: Verdict) -> Iterator[str]:
    """Yield what the reference says otherwise about the node, in what the service knew.

    Victims that were kept as they were proposed must be enough: kube-scheduler proposes them by what it knows itself.
    Otherwise the reference takes the same victims, or none where the node was left out. It tries no preemption for a
    pod that fits on another node; then it only says whether the pod fits on this one.
    """
    if error := verdict.get("error") or verdict.get("cycleError"):
        yield f"the reference fails: {error}"
        return
    feasible = verdict["feasible"]
    nominated = case.pod["status"].get("nominatedNodeName")
    if case.kept == "as proposed":
        # The reference tries no other node where the nominated one is feasible.
        if case.node not in feasible and nominated not in feasible:
            yield f"the pod does not fit on {case.node} by the reference, without more victims than those proposed"
        return
    if case.node in feasible:
        yield f"the pod fits on {case.node} by the reference, without more victims than those proposed"
    if not is_decided(verdict):
        return
    victims = {candidate["node"]: candidate["victims"] for candidate in verdict["preempt"]["candidates"]}
    theirs = victims.get(case.node)
    if (theirs is not None) != (case.kept == "as needed"):
        yield f"{case.node} was kept {case.kept!r}, the reference's victims there are {theirs or 'none'}"
    elif theirs is not None and sorted(theirs) != sorted(case.victims) and not is_left_to_chance(case):
        yield f"{case.victims} were to go from {case.node}, the reference deletes {theirs}"


def is_decided(verdict: Verdict) -> bool:
    """Return whether the reference has tried preemption."""
    return not verdict["feasible"] and "preempt" in verdict
