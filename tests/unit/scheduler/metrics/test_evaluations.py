"""How often each plugin is counted (plugin_evaluation_total)."""

from collections import Counter
from collections.abc import Mapping

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import FilterAgain, Plugin, PostFilter, PostFilterResult
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import run_post_filter
from extender_service.framework.status import SKIP, Status, unresolvable, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod
from extender_service.scheduler.metrics.evaluations import Evaluations
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import Decision, decide, narrowed
from extender_service.scheduling.question import Question
from tests.support.stub_plugins import POD, Stub, stub_cluster


def decided(*plugins: Stub, cluster: Cluster | None = None) -> Decision:
    cluster = stub_cluster("a", "b", "c") if cluster is None else cluster
    points = {point: [(plugin, 1) for plugin in plugins] for point in ("preFilter", "filter", "preScore", "score")}
    return decide(Profile("p", points), Question(POD, AllNodes(cluster.view(None))))


def counts(evaluations: Evaluations) -> Mapping[tuple[str, str], float]:
    [family] = evaluations.collect()
    assert {sample.labels["profile"] for sample in family.samples} <= {"p"}
    return {(each.labels["plugin"], each.labels["extension_point"]): each.value for each in family.samples}


def counted(*plugins: Stub) -> Mapping[tuple[str, str], float]:
    evaluations = Evaluations()
    evaluations.judged(decided(*plugins))
    return counts(evaluations)


def test_filter_and_score_count_nodes_and_the_others_pods() -> None:
    first = Stub("First", rejects={"a": unschedulable("no")}, scores={})
    second = Stub("Second", scores={})
    assert counted(first, second) == {
        ("First", "PreFilter"): 1,
        ("Second", "PreFilter"): 1,
        ("First", "Filter"): 3,
        ("Second", "Filter"): 2,
        ("First", "PreScore"): 1,
        ("Second", "PreScore"): 1,
        ("First", "Score"): 2,
        ("Second", "Score"): 2,
    }


def test_plugins_that_skip_the_pod_do_not_count() -> None:
    assert counted(Stub("Skips", pre_filter=SKIP, pre_score=SKIP), Stub("Other", scores={})).keys() == {
        ("Other", point) for point in ("PreFilter", "Filter", "PreScore", "Score")
    }


def test_where_no_node_is_left_the_plugins_behind_do_not_count() -> None:
    everywhere = {name: unschedulable("no") for name in "abc"}
    found = counted(Stub("First", rejects=everywhere), Stub("Second"))
    assert ("First", "Filter") in found
    assert ("Second", "Filter") not in found
    assert not {key for key in found if "Score" in key[1]}


def test_pre_filter_counts_up_to_the_plugin_that_ends_it() -> None:
    def points(status: Status) -> set[tuple[str, str]]:
        return set(counted(Stub("First", pre_filter=status), Stub("Second")))

    assert points(unresolvable("never")) == {("First", "PreFilter")}
    assert points(unschedulable("not now")) == {("First", "PreFilter"), ("Second", "PreFilter")}
    both = counted(Stub("A", pre_filter={"a"}), Stub("B", pre_filter={"b"}), Stub("C"))
    assert set(both) == {("A", "PreFilter"), ("B", "PreFilter")}


def test_nodes_that_pre_filter_left_out_do_not_count() -> None:
    assert counted(Stub("First", pre_filter={"a"}))["First", "Filter"] == 1


def test_scores_that_follow_later_count_alone() -> None:
    evaluations = Evaluations()
    decision = decided(Stub("First", scores={}))
    evaluations.scored(narrowed(decision, decision.feasible[:2], must_score=True))
    assert counts(evaluations) == {("First", "PreScore"): 1, ("First", "Score"): 2}


def test_decisions_that_follow_from_another_count_like_it() -> None:
    first = decided(Stub("First", rejects={"a": unschedulable("no")}, scores={}))
    once, thrice = Evaluations(), Evaluations()
    once.judged(first)
    thrice.judged(first)
    for _ in range(2):
        thrice.judged(first.repeated(first.question, first.state, first.best))
    assert counts(thrice) == {key: 3 * count for key, count in counts(once).items()}
    assert counts(thrice) == {key: 3 * count for key, count in counts(once).items()}


def test_decisions_in_a_row_count_as_each_of_them_does() -> None:
    choosy = Stub("Choosy", rejects={"a": unschedulable("no")}, scores={})
    narrow = Stub("Narrow", pre_filter={"a", "b"}, rejects={"b": unschedulable("no")})
    nowhere = Stub("Nowhere", rejects={name: unschedulable("no") for name in "abc"})
    skipping = Stub("Skipping", pre_filter=SKIP, pre_score=SKIP, scores={})
    first, other = decided(choosy, Stub("Scores", scores={})), decided(choosy, skipping, Stub("Scores", scores={}))
    repeated = [first.repeated(first.question, first.state, first.best) for _ in range(3)]
    decisions = [first, *repeated, first, other, other, decided(narrow, skipping), decided(nowhere), *repeated, first]
    together, expected = Evaluations(), Counter[tuple[str, str]]()
    for decision in decisions:
        together.judged(decision)
        alone = Evaluations()
        alone.judged(decision)
        expected.update(counts(alone))
    assert counts(together) == expected


def test_decisions_by_many_sets_of_plugins_all_count() -> None:
    evaluations = Evaluations()
    for _ in range(2):
        for number in range(70):
            evaluations.judged(decided(Stub(f"Skips-{number}", pre_filter=SKIP), Stub("Other", scores={})))
    assert counts(evaluations)["Other", "Filter"] == 2 * 70 * 3


class Preempts(PostFilter):
    """Judges all nodes again, then those that pass."""

    name = "Preempts"

    def __init__(self) -> None:
        """Take no handle."""

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        filter_again(filter_again(verdicts.view).view)
        return PostFilterResult(unschedulable("no"))


def test_each_run_of_filter_for_preemption_counts() -> None:
    everywhere = {name: unschedulable("no") for name in "ab"}
    first, second = Stub("First", rejects=everywhere), Stub("Second", rejects={"c": unschedulable("no")})
    points: dict[str, list[tuple[Plugin, int]]] = {
        "filter": [(first, 1), (second, 1)],
        "postFilter": [(Preempts(), 1)],
    }
    decision = decide(Profile("p", points), Question(POD, AllNodes(stub_cluster("a", "b", "c").view(None))))
    run_post_filter(decision.profile, decision.state, POD, decision.verdicts)
    evaluations = Evaluations()
    evaluations.judged(decision)
    evaluations.tried_victims(decision)
    assert counts(evaluations) == {("First", "Filter"): 3 + 2 * 3, ("Second", "Filter"): 1 + 2 * 1}
