import asyncio
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from extender_service.cluster.state.node_info import NodeInfo
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.filtering import filter_nodes
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.framework.interface import (
    Candidate,
    Filter,
    FilterAgain,
    Needs,
    PostFilter,
    PostFilterResult,
    PreEnqueue,
)
from extender_service.framework.per_node import FilterNode
from extender_service.framework.plugin_errors import NoTimeLeftError, PluginError
from extender_service.framework.preemption.filtering_again import FilteringAgain
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import (
    run_post_filter,
    run_pre_enqueue,
    run_pre_filter,
    run_pre_score,
    run_score,
)
from extender_service.framework.status import SKIP, Code, Rejections, Status, unresolvable, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod
from extender_service.scheduling.asked_nodes import AllNodes, NodeFinder
from extender_service.scheduling.decision import Decision, decide
from extender_service.scheduling.question import Question
from tests.support.clock import Clock
from tests.support.objects import make_pod
from tests.support.stub_plugins import POD, Stub, fails, make_handle, make_profile, stub_cluster

NO = unschedulable("no")
NEVER = unresolvable("never")
BROKEN = Status(Code.ERROR, ("out of order",))
# What a Status takes for no reasons.
NO_TUPLE: Any = "no licence"
NO_TEXT: Any = ["no licence"]
NOT_REASONS = "the reasons of a Status must be a tuple of texts"
INVALID_SCORE = (
    'applying score defaultWeights on Score plugins: plugin "A" returns an invalid score {}, it should in the range of '
    "[0, 100] after normalizing"
)


def decision(profile: Profile, *names: str, score: bool = True, others: int = 0) -> Decision:
    cluster = stub_cluster(*names, *(f"other-{number}" for number in range(others)))
    return decide(profile, Question(POD, NodeFinder(cluster).named(names), must_score=score))


def statuses(decided: Decision) -> dict[str, Status]:
    names = decided.verdicts.view.names
    return {names[position]: status for status, positions in decided.verdicts.groups() for position in positions}


def feasible(decided: Decision) -> list[str]:
    names = decided.verdicts.view.names
    return [names[position] for position in decided.feasible]


# PreFilter.


def pre_filtered(*plugins: Stub) -> tuple[Status | None, set[str] | None, set[str]]:
    """The rejection, the only nodes in question, and the plugins whose Filter is skipped."""
    state = CycleState(POD)
    found = run_pre_filter(make_profile(*plugins), state, POD)
    return found.rejection, found.node_names, state.skipped_filters


def test_nothing_said_leaves_all_nodes_in_question() -> None:
    assert pre_filtered(Stub("A"), Stub("B")) == (None, None, set())


def test_a_plugin_that_skips_has_its_filter_skipped() -> None:
    skips = Stub("A", pre_filter=SKIP, rejects={"a": NO})
    decided = decision(make_profile(skips, Stub("B")), "a")
    assert feasible(decided) == ["a"]
    assert skips.asked == []


def test_the_nodes_in_question_are_those_that_all_plugins_name() -> None:
    assert pre_filtered(Stub("A", pre_filter=["a", "b"]), Stub("B"), Stub("C", pre_filter=["b", "c"])) == (
        None,
        {"b"},
        set(),
    )


def test_nodes_that_no_plugin_names_are_told_which_plugins_named_others() -> None:
    decided = decision(make_profile(Stub("Z", pre_filter=["a", "b"]), Stub("A", pre_filter={"a": 1})), "a", "b", "c")
    elsewhere = unresolvable("node(s) didn't satisfy plugin(s) [A Z]")
    assert feasible(decided) == ["a"]
    assert statuses(decided) == {"b": elsewhere, "c": elsewhere}


def test_nothing_in_common_ends_it() -> None:
    last = Stub("C", pre_filter=fails(AssertionError("is not asked")))
    rejection, names, _ = pre_filtered(Stub("Z", pre_filter=["a"]), Stub("B", pre_filter=["b"]), last)
    assert rejection == unresolvable("node(s) didn't satisfy plugin(s) [B Z] simultaneously")
    assert names == set()


def test_a_single_plugin_that_names_no_node() -> None:
    rejection, _, _ = pre_filtered(Stub("A", pre_filter=[]))
    assert rejection == unresolvable("node(s) didn't satisfy plugin A")


def test_unresolvable_stops_at_once() -> None:
    last = Stub("B", pre_filter=fails(AssertionError("is not asked")))
    rejection, _, _ = pre_filtered(Stub("A", pre_filter=NEVER), last)
    assert rejection == NEVER.given_by("A")


def test_unschedulable_goes_on_and_the_last_word_counts() -> None:
    rejection, _, skipped = pre_filtered(Stub("A", pre_filter=NO), Stub("B", pre_filter=SKIP), Stub("C"))
    assert (rejection, skipped) == (NO.given_by("A"), {"B"})
    later = unschedulable("later")
    assert pre_filtered(Stub("A", pre_filter=NO), Stub("B", pre_filter=later))[0] == later.given_by("B")
    assert pre_filtered(Stub("A", pre_filter=NO), Stub("B", pre_filter=NEVER))[0] == NEVER.given_by("B")


@pytest.mark.parametrize("others", [0, 3, 100])
def test_what_prefilter_rejects_no_node_is_filtered_for(others: int) -> None:
    plugin = Stub("B", rejects={"a": NEVER})
    decided = decision(make_profile(Stub("A", pre_filter=NO), plugin), "a", "b", others=others)
    assert statuses(decided) == {"a": NO.given_by("A"), "b": NO.given_by("A")}
    assert plugin.asked == []


@pytest.mark.parametrize("others", [0, 3, 100])
def test_nodes_are_named_among_few_and_among_many(others: int) -> None:
    decided = decision(make_profile(Stub("A", pre_filter=["b", "other-1", "unknown"])), "a", "b", others=others)
    assert feasible(decided) == ["b"]
    assert set(statuses(decided)) == {"a"}


class WordlessError(Exception):
    """Cannot be made a text."""

    def __str__(self) -> str:
        raise AttributeError("no attribute 'reason'")


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        (Stub("A", pre_filter=BROKEN), 'running PreFilter plugin "A": out of order'),
        (Stub("A", pre_filter=fails(PluginError("as told"))), 'running PreFilter plugin "A": as told'),
        (Stub("A", pre_filter=fails(QuantityError("as told"))), 'running PreFilter plugin "A": as told'),
        (Stub("A", pre_filter=fails(KeyError("x"))), "running PreFilter plugin \"A\": KeyError: 'x'"),
        (Stub("A", rejects=fails(PluginError("as told"))), 'running "A" filter plugin: as told'),
        (Stub("A", rejects=fails(ValueError("oops"))), 'running "A" filter plugin: ValueError: oops'),
        # What the task of a plugin ended with that it runs in the background.
        (
            Stub("A", rejects=fails(asyncio.CancelledError("stopped"))),
            'running "A" filter plugin: CancelledError: stopped',
        ),
        (
            Stub("A", rejects=fails(WordlessError())),
            'running "A" filter plugin: WordlessError: <exception str() failed>',
        ),
        (Stub("A", rejects={"b": BROKEN}), 'running "A" filter plugin: out of order'),
        (
            Stub("A", pre_filter=lambda: Status(Code.UNSCHEDULABLE, NO_TUPLE)),
            f"running PreFilter plugin \"A\": TypeError: {NOT_REASONS}, not 'no licence'",
        ),
        (
            Stub("A", pre_filter=lambda: unschedulable(NO_TEXT)),
            f"running PreFilter plugin \"A\": TypeError: {NOT_REASONS}, not (['no licence'],)",
        ),
        (
            Stub("A", rejects=lambda: {"a": Status(Code.UNSCHEDULABLE, NO_TUPLE)}),
            f"running \"A\" filter plugin: TypeError: {NOT_REASONS}, not 'no licence'",
        ),
        (Stub("A", pre_score=BROKEN), 'running PreScore plugin "A": out of order'),
        (Stub("A", pre_score=NO), 'running PreScore plugin "A": no'),
        (Stub("A", pre_score=fails(PluginError("as told"))), 'running PreScore plugin "A": as told'),
        (
            Stub("A", scores=fails(PluginError("as told"))),
            'running Score plugins: plugin "A" failed with: as told',
        ),
        (
            Stub("A", normalized=lambda _: fails(ValueError("oops"))()),
            'running Normalize on Score plugins: plugin "A" failed with: ValueError: oops',
        ),
        (
            Stub("A", scores={"b": 101}),
            INVALID_SCORE.format(101),
        ),
        (
            Stub("A", scores={"b": -1}),
            INVALID_SCORE.format(-1),
        ),
    ],
)
def test_an_error_ends_the_cycle_in_kube_schedulers_words(plugin: Stub, says: str) -> None:
    with pytest.raises(CycleError) as raised:
        decision(make_profile(plugin), "a", "b")
    assert str(raised.value) == says


def test_the_first_node_with_an_invalid_score_is_the_error() -> None:
    """As in kube-scheduler, which goes through the nodes, and through the plugins for each."""
    with pytest.raises(CycleError) as raised:
        decision(make_profile(Stub("B", scores={"b": -7}), Stub("A", scores={"a": 101, "b": 102})), "a", "b")
    assert str(raised.value) == INVALID_SCORE.format(101)


@pytest.mark.parametrize(
    ("point", "answer", "says"),
    [
        ("pre_filter", True, 'running PreFilter plugin "A": it returned bool, not '),
        ("pre_filter", np.array("a"), 'running PreFilter plugin "A": it returned an array () of <U1, not '),
        ("pre_filter", np.array([0, 1]), 'running PreFilter plugin "A": it returned ndarray of int64, not '),
        ("pre_filter", [{"a"}], 'running PreFilter plugin "A": it returned list of set, not '),
        ("filter", np.array([True, False]), 'running "A" filter plugin: it returned an array (2,) of bool, not '),
        ("pre_score", "no", 'running PreScore plugin "A": it returned str, not '),
        (
            "pre_filter",
            Status(Code.SUCCESS),
            'running PreFilter plugin "A": it returned Status(Code.SUCCESS): return None',
        ),
        (
            "pre_score",
            Status(Code.SUCCESS),
            'running PreScore plugin "A": it returned Status(Code.SUCCESS): return None',
        ),
        ("score", [1, 2], 'running Score plugins: plugin "A" failed with: it returned list, not 2 scores of int64'),
        (
            "normalize",
            np.array([0.5, 1.0]),
            'running Normalize on Score plugins: plugin "A" failed with: it returned an array (2,) of float64, not ',
        ),
    ],
)
def test_an_answer_of_the_wrong_kind_is_told_with_the_name_of_the_plugin(
    point: str, answer: object, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Stub("A")
    monkeypatch.setattr(plugin, point, lambda *_: answer)
    with pytest.raises(CycleError) as raised:
        decision(make_profile(plugin), "a", "b")
    assert str(raised.value).startswith(says)


def test_scores_are_normalised_before_they_are_checked() -> None:
    plugin = Stub("A", scores={"a": 1000}, normalized=lambda scores: scores // 10)
    decided = decision(make_profile(plugin), "a", "b")
    assert decided.totals is not None
    assert decided.totals.tolist() == [100, 0]


# Filter.


def test_the_first_plugin_in_the_order_of_the_profile_has_the_say() -> None:
    plugins = [Stub("B", rejects={"a": NO}), Stub("A", rejects={"a": NEVER, "b": NEVER})]
    assert statuses(decision(make_profile(*plugins), "a", "b")) == {"a": NO.given_by("B"), "b": NEVER.given_by("A")}
    assert statuses(decision(make_profile(*plugins[::-1]), "a", "b")) == dict.fromkeys("ab", NEVER.given_by("A"))


def test_no_plugin_is_asked_once_all_nodes_are_out() -> None:
    last = Stub("B")
    decision(make_profile(Stub("A", rejects={"a": NO, "b": NO}), last), "a", "b")
    assert last.asked == []


def test_a_later_plugin_is_asked_about_the_few_nodes_that_are_left() -> None:
    names = [f"n{number}" for number in range(40)]
    last = Stub("B")
    decision(make_profile(Stub("A", rejects=dict.fromkeys(names[5:], NO)), last), *names)
    assert last.asked == [5]


def test_an_error_on_a_node_that_was_rejected_before_does_not_count() -> None:
    decided = decision(make_profile(Stub("A", rejects={"a": NO}), Stub("B", rejects={"a": BROKEN})), "a", "b")
    assert feasible(decided) == ["b"]


def test_an_error_on_a_node_that_was_not_asked_for_does_not_count() -> None:
    decided = decision(make_profile(Stub("A", rejects={"other-0": BROKEN})), "a", "b", others=1)
    assert feasible(decided) == ["a", "b"]


class FailsOn(FilterNode):
    """Fails on one node."""

    name = "FailsOn"

    def __init__(self, node_name: str) -> None:
        super().__init__(None, make_handle(stub_cluster()))
        self._node_name = node_name

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if node.name == self._node_name:
            raise KeyError("driver")
        return None


def filtering(*plugins: Filter) -> Profile:
    return Profile("default-scheduler", {"filter": [(plugin, 1) for plugin in plugins]})


def test_an_exception_about_a_node_that_was_rejected_before_does_not_count() -> None:
    assert feasible(decision(filtering(Stub("A", rejects={"a": NO}), FailsOn("a")), "a", "b")) == ["b"]


def test_an_exception_about_a_node_that_was_not_asked_for_does_not_count() -> None:
    assert feasible(decision(filtering(FailsOn("other-0")), "a", "b", others=1)) == ["a", "b"]


def test_an_exception_about_a_node_in_question_ends_the_cycle() -> None:
    with pytest.raises(CycleError, match=r"""^running "FailsOn" filter plugin: KeyError: 'driver'$"""):
        decision(filtering(Stub("A", rejects={"a": NO}), FailsOn("b")), "a", "b")


def test_nodes_can_be_filtered_with_errors_as_verdicts() -> None:
    profile = make_profile(Stub("A", rejects={"a": BROKEN, "b": NO}))
    view, state = stub_cluster("a", "b", "c").view(None), CycleState(POD)
    found = run_pre_filter(profile, state, POD)
    verdicts = filter_nodes(profile, state, POD, view, np.ones(3, np.bool_), found)
    assert {status: positions.tolist() for status, positions in verdicts.groups()} == {
        BROKEN.given_by("A"): [0],
        NO.given_by("A"): [1],
    }
    assert verdicts.passing.tolist() == [False, False, True]
    assert verdicts.first_error() == BROKEN.given_by("A")


# PreEnqueue.


class Gate(PreEnqueue):
    """Answers with a status."""

    def __init__(self, name: str, answer: Status | None) -> None:
        super().__init__(None, make_handle(stub_cluster()))
        self.name = name  # type: ignore[misc]
        self._answer = answer

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return self._answer


def test_the_first_plugin_that_minds_keeps_a_pod_out_of_the_queue() -> None:
    def kept_out(*gates: Gate) -> Status | None:
        return run_pre_enqueue(Profile("s", {"preEnqueue": [(gate, 0) for gate in gates]}), POD)

    assert kept_out() is None
    assert kept_out(Gate("A", None)) is None
    assert kept_out(Gate("A", None), Gate("B", NEVER), Gate("C", NO)) == NEVER.given_by("B")


def test_a_plugin_that_fails_keeps_a_pod_out_of_the_queue() -> None:
    class Broken(Gate):
        def pre_enqueue(self, pod: Pod) -> Status | None:
            raise RuntimeError("broken")

    status = run_pre_enqueue(Profile("s", {"preEnqueue": [(Broken("A", None), 0)]}), POD)
    assert status == Status(Code.ERROR, ('running PreEnqueue plugin "A": RuntimeError: broken',), "A")


def test_a_plugin_that_returns_nonsense_keeps_a_pod_out_of_the_queue() -> None:
    nonsense: Any = {"a"}
    status = run_pre_enqueue(Profile("s", {"preEnqueue": [(Gate("A", nonsense), 0)]}), POD)
    text = 'running PreEnqueue plugin "A": it returned set, not a Status or None'
    assert status == Status(Code.ERROR, (text,), "A")


# Score and choice.


def test_weights_count_and_skipped_plugins_do_not() -> None:
    profile = make_profile(
        Stub("A", scores={"a": 10, "b": 20}),
        Stub("B", scores={"a": 100}, pre_score=SKIP),
        Stub("C", scores={"a": 7}),
        weights={"A": 3},
    )
    state = CycleState(POD)
    nodes = stub_cluster("a", "b").view(None)
    run_pre_score(profile, state, POD, nodes)
    scores = run_score(profile, state, POD, nodes)
    assert {name: weighted.tolist() for name, weighted in scores.weighted.items()} == {"A": [30, 60], "C": [7, 0]}
    assert scores.totals.tolist() == [37, 60]


def test_only_feasible_nodes_are_scored() -> None:
    decided = decision(make_profile(Stub("A", rejects={"b": NO}, scores={"a": 1, "b": 101, "c": 3})), "a", "b", "c")
    assert decided.totals is not None
    assert (feasible(decided), decided.totals.tolist()) == (["a", "c"], [1, 3])


@pytest.mark.parametrize("score", [True, False])
def test_one_feasible_node_needs_no_scores(score: bool) -> None:
    decided = decision(
        make_profile(Stub("A", rejects={"b": NO}, scores=fails(AssertionError()))), "a", "b", score=score
    )
    assert decided.totals is None
    assert decided.choose() == 0


def choices(decided: Decision) -> Counter[str]:
    names = decided.verdicts.view.names
    return Counter(names[decided.choose()] for _ in range(300))


def test_the_best_are_chosen_with_the_same_chance() -> None:
    scores = {"a": 5, "b": 9, "c": 9, "d": 8, "e": 9, "f": 100}
    chosen = choices(decision(make_profile(Stub("A", rejects={"f": NO}, scores=scores)), *scores))
    assert set(chosen) == {"b", "c", "e"}
    assert min(chosen.values()) > 50


def test_without_scores_any_feasible_node_is_chosen() -> None:
    profile = Profile("default-scheduler", {"filter": [(Stub("A", rejects={"b": NO}), 0)]})
    assert set(choices(decision(profile, "a", "b", "c"))) == {"a", "c"}


# Narrowing to the nodes that are left changes nothing but the work.

verdict = st.sampled_from([NO, NEVER, unschedulable("no", "room")])


@given(
    size=st.integers(1, 40),
    data=st.data(),
)
def test_the_outcome_is_that_of_asking_node_by_node(size: int, data: st.DataObject) -> None:
    names = [f"n{number}" for number in range(size)]
    some_names = st.sets(st.sampled_from(names))
    asked = data.draw(some_names)
    named = data.draw(st.none() | some_names)
    rejections = data.draw(st.lists(st.dictionaries(st.sampled_from(names), verdict), max_size=5))
    scores = data.draw(st.dictionaries(st.sampled_from(names), st.integers(0, 100)))
    plugins = [Stub(f"P{number}", rejects=rejects) for number, rejects in enumerate(rejections)]
    plugins.append(Stub("Last", pre_filter=named, scores=scores))

    expected: dict[str, Status] = {}
    for name in sorted(asked):
        if named is not None and name not in named:
            plugin = "plugin Last" if not named else "plugin(s) [Last]"
            expected[name] = unresolvable(f"node(s) didn't satisfy {plugin}")
            continue
        by = next((number for number, rejects in enumerate(rejections) if name in rejects), None)
        if by is not None:
            expected[name] = rejections[by][name].given_by(f"P{by}")

    in_order = [name for name in names if name in asked]
    decided = decide(make_profile(*plugins), Question(POD, NodeFinder(stub_cluster(*names)).named(in_order)))
    assert statuses(decided) == expected
    fit = [name for name in names if name in asked and name not in expected]
    assert feasible(decided) == fit
    if len(fit) > 1:
        assert decided.totals is not None
        assert decided.totals.tolist() == [scores.get(name, 0) for name in fit]


def test_a_decision_keeps_what_plugins_noted() -> None:
    assert decision(make_profile(Stub("A", pre_filter=SKIP)), "a").state.skipped_filters == {"A"}


# PostFilter, and time.


class Preempts(PostFilter):
    name = "Preempts"

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        filter_again(verdicts.view)
        raise ZeroDivisionError("oops")


def post_filter(profile: Profile, state: CycleState) -> None:
    view = stub_cluster("a").view(None)
    run_post_filter(profile, state, POD, Verdicts(view, np.ones(1, np.bool_)))


def preempting() -> Profile:
    return Profile("default-scheduler", {"postFilter": [(Preempts(None, make_handle(stub_cluster())), 1)]})


def test_a_post_filter_that_raises_is_an_error_with_its_name() -> None:
    with pytest.raises(CycleError, match=r'^running PostFilter plugin "Preempts": ZeroDivisionError: oops$'):
        post_filter(preempting(), CycleState(POD))


def test_a_filter_that_fails_while_a_post_filter_runs_is_the_one_that_is_named() -> None:
    broken = Stub("A", rejects=fails(ValueError("oops")))
    preempts = Preempts(None, make_handle(stub_cluster()))
    profile = Profile("default-scheduler", {"filter": [(broken, 1)], "postFilter": [(preempts, 1)]})
    with pytest.raises(CycleError, match=r'^running "A" filter plugin: ValueError: oops$'):
        post_filter(profile, CycleState(POD))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "NoneType, not a PostFilterResult"),
        (NO, "Status, not a PostFilterResult"),
        (
            PostFilterResult(Status(Code.SUCCESS), "a", ("web",)),  # type: ignore[arg-type]
            "a PostFilterResult whose victims are tuple of str, not a tuple of slots",
        ),
        (
            PostFilterResult(Status(Code.SUCCESS), "a", (0,)),
            "a PostFilterResult whose victim 0 is no slot of a pod",
        ),
        (
            PostFilterResult(Status(Code.SUCCESS), "b"),
            'a PostFilterResult whose node_name "b" is no node of the cluster',
        ),
        (
            PostFilterResult(Status(Code.SUCCESS), "a", candidates=(name for name in "b")),  # type: ignore[misc]
            "a PostFilterResult with a candidate that is str, not a Candidate",
        ),
    ],
)
def test_a_post_filter_that_returns_no_result_is_an_error_with_its_name(
    answer: object, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Preempts, "post_filter", lambda *_: answer)
    with pytest.raises(CycleError) as raised:
        post_filter(preempting(), CycleState(POD))
    assert str(raised.value) == f'running PostFilter plugin "Preempts": it returned {says}'


def test_candidates_that_a_post_filter_fails_to_make_are_an_error_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = PostFilterResult(Status(Code.SUCCESS), "a", candidates=(Candidate("a", (1 // 0,), 0) for _ in "a"))
    monkeypatch.setattr(Preempts, "post_filter", lambda *_: found)
    with pytest.raises(CycleError, match=r'^running PostFilter plugin "Preempts": ZeroDivisionError: '):
        post_filter(preempting(), CycleState(POD))


def test_candidates_may_come_from_a_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = stub_cluster("a")
    cluster.apply_pod(make_pod("victim", "a"))
    [victim] = [slot for slot in range(len(cluster.pods.facts)) if cluster.view(None).has_pod(slot)]
    candidate = Candidate("a", (victim,), 0)
    found = PostFilterResult(Status(Code.SUCCESS), "a", (victim,), candidates=(each for each in [candidate]))
    monkeypatch.setattr(Preempts, "post_filter", lambda *_: found)
    result = run_post_filter(preempting(), CycleState(POD), POD, Verdicts(cluster.view(None), np.ones(1, np.bool_)))
    assert [*result.candidates] == [candidate]


class Compares(Filter):
    """Has preemption compare what nodes have left."""

    name = "Compares"

    def __init__(self, needed: Any) -> None:
        super().__init__(None, make_handle(stub_cluster()))
        self._needed = needed

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        return None

    def needs(self, state: CycleState, nodes: NodeView) -> Needs | None:
        needed: Needs | None = self._needed
        return needed


@pytest.mark.parametrize(
    ("needed", "says"),
    [
        ((0, 5), "tuple, not Needs or None"),
        (Needs((0,), ("5",)), "Needs whose amounts are tuple of str, not whole numbers"),  # type: ignore[arg-type]
        (Needs((99,), (5,)), "Needs whose dimension 99 is that of no resource"),
        (Needs((0,), (2**63,)), f"Needs whose amount {2**63} is beyond int64"),
    ],
)
def test_needs_of_the_wrong_kind_are_told_with_the_name_of_the_filter(needed: object, says: str) -> None:
    again = FilteringAgain(filtering(Compares(needed)), CycleState(POD), POD, ())
    with pytest.raises(CycleError) as raised:
        again.free_resources_on(stub_cluster("a").view(None))
    assert str(raised.value) == f'running "Compares" filter plugin: it returned {says}'


class Remembers(PostFilter):
    """Makes no room, and keeps the statuses that it is given."""

    name = "Remembers"
    given: dict[str, Status]

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        names = verdicts.view.names
        self.given = {names[position]: status for status, positions in verdicts.groups() for position in positions}
        assert not verdicts.passing.any()
        return PostFilterResult(NO)


class Nominates(PostFilter):
    """Finds room on node a."""

    name = "Nominates"

    def post_filter(
        self, state: CycleState, pod: Pod, verdicts: Verdicts, filter_again: FilterAgain
    ) -> PostFilterResult:
        return PostFilterResult(Status(Code.SUCCESS, ("room",)), "a")


def test_the_status_of_room_names_the_plugin_that_found_it() -> None:
    cluster = stub_cluster("a")
    plugins = [(plugin(None, make_handle(cluster)), 1) for plugin in (Remembers, Nominates)]
    profile, view = Profile("default-scheduler", {"postFilter": plugins}), cluster.view(None)
    verdicts = Verdicts(view, np.zeros(1, np.bool_))
    found = run_post_filter(profile, CycleState(POD), POD, verdicts)
    assert found == PostFilterResult(Status(Code.SUCCESS, ("room",), "Nominates"), "a")


ELSEWHERE = unresolvable("node(s) didn't satisfy plugin(s) [Names]")


@pytest.mark.parametrize(
    ("rejects", "expected"),
    [
        ({"a": NO}, {"a": NO.given_by("B"), "c": ELSEWHERE}),
        ({"a": NEVER, "c": NO}, {"a": NEVER.given_by("B"), "c": ELSEWHERE}),
        # As in kube-scheduler, where the nominated node has no status in these cases.
        ({"a": BROKEN}, {"c": ELSEWHERE}),
        ({}, {"c": ELSEWHERE}),
    ],
)
def test_preemption_sees_the_verdict_of_filter_on_a_nominated_node_that_pre_filter_left_out(
    rejects: dict[str, Status], expected: dict[str, Status]
) -> None:
    cluster = stub_cluster("a", "b", "c")
    plugin = Remembers(None, make_handle(cluster))
    names, rejecting = Stub("Names", pre_filter=["b"]), Stub("B", rejects={"b": NO, **rejects})
    profile = Profile(
        "default-scheduler",
        {"preFilter": [(names, 1)], "filter": [(rejecting, 1)], "postFilter": [(plugin, 1)]},
    )
    pod = structs.replace(POD, status=structs.replace(POD.status, nominated_node_name="a"))
    decided = decide(profile, Question(pod, NodeFinder(cluster).named(["a", "b", "c"])))
    for _ in range(2):  # kube-scheduler calls PostFilter once, but a second call finds the same
        run_post_filter(profile, decided.state, pod, decided.verdicts)
        assert plugin.given == {"b": NO.given_by("B"), **expected}


def test_a_rejection_by_pre_filter_is_the_verdict_on_the_nominated_node_too() -> None:
    cluster = stub_cluster("a", "b")
    plugin = Remembers(None, make_handle(cluster))
    stubs = [(Stub("A", pre_filter=["a"]), 1), (Stub("B", pre_filter=["b"]), 1)]
    profile = Profile("default-scheduler", {"preFilter": stubs, "filter": stubs, "postFilter": [(plugin, 1)]})
    pod = structs.replace(POD, status=structs.replace(POD.status, nominated_node_name="a"))
    decided = decide(profile, Question(pod, NodeFinder(cluster).named(["a", "b"])))
    run_post_filter(profile, decided.state, pod, decided.verdicts)
    assert plugin.given == dict.fromkeys("ab", unresolvable("node(s) didn't satisfy plugin(s) [A B] simultaneously"))


def test_what_preemption_tries_is_given_up_when_time_is_up(clock: Clock) -> None:
    slow = Stub("Slow", rejects=lambda: clock.pass_seconds(2))
    profile = Profile(
        "default-scheduler",
        {"postFilter": [(Preempts(None, make_handle(stub_cluster())), 1)], "filter": [(slow, 1), (Stub("B"), 1)]},
        clock=clock,
    )
    with pytest.raises(OutOfTimeError, match=r'^running "Slow" filter plugin: the time for this decision is over'):
        post_filter(profile, profile.new_state(POD, clock() + 1))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(
    ("slow", "running"),
    [
        ("pre_filter", 'PreFilter plugin "A"'),
        ("rejects", '"A" filter plugin'),
        ("pre_score", 'PreScore plugin "A"'),
        ("scores", 'Score plugins: plugin "A" failed with'),
    ],
)
def test_a_plugin_that_takes_too_long_is_named_and_no_other_is_asked(slow: str, running: str, clock: Clock) -> None:
    takes_long: dict[str, Any] = {slow: lambda: clock.pass_seconds(2)}
    started = clock()
    profile = make_profile(Stub("A", **takes_long), Stub("B", **takes_long), clock=clock)
    view = stub_cluster("a", "b").view(None)
    with pytest.raises(OutOfTimeError) as raised:
        decide(profile, Question(POD, AllNodes(view), started + 1))
    assert str(raised.value) == f"running {running}: the time for this decision is over (--decision-timeout)"
    assert clock() == started + 2


def test_a_plugin_may_give_up_by_itself_when_time_is_up(clock: Clock) -> None:
    state = CycleState(POD, deadline=clock() + 1, clock=clock)
    state.require_time()
    clock.pass_seconds(2)
    with pytest.raises(NoTimeLeftError):
        state.require_time()
    plugin = Stub("A", rejects=fails(NoTimeLeftError()))
    with pytest.raises(OutOfTimeError, match=r'^running "A" filter plugin: the time for this decision is over'):
        decision(make_profile(plugin), "a")
