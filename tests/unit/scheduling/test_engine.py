import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import structs

from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.config.rules import rules_of
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.framework.status import Code, unresolvable
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod, PodResourceClaim
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.under_way import BindError
from tests.support.clusters.engines import EngineOnTwoNodes
from tests.support.clusters.extender_world import Hold
from tests.support.objects import make_node, make_pod
from tests.support.stub_plugins import Stub

WEB = make_pod("web", requests={"cpu": "1"})

PLACE_ALL = """
import asyncio, collections, json, pathlib, sys
from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config
from extender_service.framework.handle import Handle
from extender_service.framework.profiles import Profiles
from extender_service.framework.registry.registry import Registry
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question

async def place_all(engine, pods):
    for pod in pods:
        decision = engine.decide(Question(pod, engine.nodes.all()))
        node_name = decision.verdicts.view.name_at(decision.choose())
        await engine.bind(engine.place(pod, node_name, decision))
        engine.prepare()

cluster = Cluster()
files = ClusterFile(cluster, [pathlib.Path(sys.argv[1])])
files.load()
profiles = Profiles(Registry(IN_TREE).profiles(default_config(ARGS_TYPES), Handle(cluster, files)))
engine = Engine(cluster, profiles, files)
asyncio.run(place_all(engine, files.pods))
counts = collections.Counter(pod.spec.node_name for pod in files.pods)
extender = [name for name in sys.modules if name.startswith("extender_service.extender")]
print(json.dumps([counts, extender, engine.ahead.counts["used"]]))
"""


def test_a_thousand_pods_are_placed_and_bound_without_a_module_of_the_extender(tmp_path: Path) -> None:
    offers = {"allocatable": {"cpu": "100", "memory": "100Gi", "pods": "110"}}
    requests = {"containers": [{"name": "web", "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}]}
    nodes = [{"kind": "Node", "metadata": {"name": f"n{number}"}, "status": offers} for number in range(10)]
    pods = [{"kind": "Pod", "metadata": {"name": f"web-{number}"}, "spec": requests} for number in range(1000)]
    cluster = tmp_path / "cluster.json"
    items = [{"apiVersion": "v1", **item} for item in (*nodes, *pods)]
    cluster.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    done = subprocess.run([sys.executable, "-c", PLACE_ALL, cluster], capture_output=True, text=True, check=True)
    counts, imported, ahead = msgspec.json.decode(done.stdout)
    assert counts == {f"n{number}": 100 for number in range(10)}
    assert imported == []
    assert ahead > 900


def test_given_nodes_are_scored_whether_or_not_the_pod_fits_there() -> None:
    world = EngineOnTwoNodes()
    world.cluster.apply_pod(make_pod("large", "a", requests={"cpu": "4"}))
    assert world.engine.decide(world.question(WEB)).feasible.tolist() == [1]
    both = world.engine.score(world.question(WEB, "b", "a"))
    # In the order of the view, not of the names.
    assert both.totals.shape == (2,)
    assert both.totals[0] < both.totals[1]
    assert world.engine.score(world.question(WEB, "unknown")).totals.tolist() == []


def test_scores_after_a_decision_are_those_of_the_decision() -> None:
    world = EngineOnTwoNodes()
    world.cluster.apply_pod(make_pod("other", "a", requests={"cpu": "3"}))
    decision = world.engine.decide(world.question(WEB))
    assert decision.totals is not None
    scores = world.engine.score(world.question(WEB, "a", "b"), decision.state)
    assert scores.totals.tolist() == decision.totals.tolist()


def priority(value: int, name: str, node: str = "") -> Pod:
    pod = make_pod(name, node, requests={"cpu": "3"})
    return structs.replace(pod, spec=structs.replace(pod.spec, priority=value))


def test_room_is_made_by_naming_the_pods_that_would_have_to_go() -> None:
    world = EngineOnTwoNodes()
    for pod in (priority(3, "high", "a"), priority(1, "low", "b")):
        world.cluster.apply_pod(pod)
    question = world.question(priority(2, "urgent"))
    decision = world.engine.decide(question)
    assert len(decision.feasible) == 0
    made = world.engine.post_filter(question, decision)
    assert (made.status.code, made.node_name) == (Code.SUCCESS, "b")
    assert [world.cluster.pods[slot].name for slot in made.victims] == ["low"]
    assert (world.cpu_milli("b"), world.cluster.pod_count) == (3000, 2)


def test_a_dry_run_shows_where_the_pod_fits_without_it_and_where_taking_pods_helps() -> None:
    world = EngineOnTwoNodes()
    world.cluster.apply_node(make_node("c"))
    for pod in (priority(1, "low-a", "a"), priority(1, "low-b", "b")):
        world.cluster.apply_pod(pod)
    question = world.question(priority(2, "urgent"), "a", "b", "c")
    outcome = world.engine.dry_run(question)
    assert outcome.passing.tolist() == [False, False, True]
    assert list(outcome.candidates.names) == ["a", "b"]
    low = world.cluster.slot_on("uid-of-low-a", "a")
    assert low is not None
    agreed = world.engine.dry_run(question, RowChanges([0], [low], [-1]))
    assert agreed.passing.tolist() == [True, False, True]
    assert list(agreed.candidates.names) == ["b"]
    late = structs.replace(question, deadline=0.0)
    with pytest.raises(OutOfTimeError):
        world.engine.dry_run(late)


def test_a_question_may_ask_to_refuse_what_no_plugin_judges() -> None:
    world = EngineOnTwoNodes(rules=rules_of(34))
    question = world.question(
        structs.replace(WEB, spec=structs.replace(WEB.spec, resource_claims=(PodResourceClaim("gpu"),)))
    )
    assert len(world.engine.decide(question).feasible) == 2
    refusing = structs.replace(question, refuses_unsupported=True)
    decision = world.engine.decide(refusing)
    assert (len(decision.feasible), decision.is_final) == (0, True)
    assert not np.any(world.engine.dry_run(refusing).passing)


# Placing.


def test_a_pod_that_is_placed_again_counts_on_the_last_node_alone() -> None:
    world = EngineOnTwoNodes()
    world.engine.place(WEB, "a")
    world.engine.place(WEB, "b")
    assert (world.cpu_milli("a"), world.cpu_milli("b")) == (0, 1000)
    assert world.steps.reserved == {pod_uid(WEB): "b"}


def test_a_pod_whose_reservation_is_refused_counts_nowhere() -> None:
    world = EngineOnTwoNodes()
    world.engine.place(WEB, "a")
    world.steps.full = {"b"}
    with pytest.raises(CycleError, match='running Reserve plugin "Steps": full'):
        world.engine.place(WEB, "b")
    assert (world.cpu_milli("a"), world.cpu_milli("b"), world.steps.reserved) == (0, 0, {})


def test_nothing_stays_reserved_for_a_pod_that_cannot_be_counted() -> None:
    world = EngineOnTwoNodes()
    with pytest.raises(QuantityError):
        world.engine.place(make_pod("web", requests={"cpu": "10%"}), "a")
    assert (world.steps.reserved, len(world.cluster.placements)) == ({}, 0)


def test_the_room_of_a_pod_that_is_being_bound_is_not_given_away() -> None:
    world = EngineOnTwoNodes(WEB)
    hold = world.api.hold = Hold()

    async def place_twice() -> None:
        binding = asyncio.create_task(world.engine.bind(world.engine.place(WEB, "a")))
        await world.reached("bind")
        with pytest.raises(CycleError, match="pod default/web is being bound to a"):
            world.engine.place(WEB, "b")
        hold.go_on.set()
        await binding
        with pytest.raises(CycleError, match="pod default/web is being bound to a"):
            world.engine.place(WEB, "b")

    asyncio.run(place_twice())
    assert (world.cpu_milli("a"), world.cpu_milli("b")) == (1000, 0)


def test_a_decision_about_another_pod_is_not_taken() -> None:
    world = EngineOnTwoNodes()
    decision = world.engine.decide(world.question(WEB))
    with pytest.raises(ValueError, match="the decision is about pod default/web, not default/db"):
        world.engine.place(make_pod("db"), "a", decision)
    assert (world.steps.reserved, len(world.cluster.placements)) == ({}, 0)


@pytest.mark.parametrize("refusal", [unresolvable("never"), ()])
def test_a_pod_can_be_placed_where_it_was_put_elsewhere_although_a_plugin_rules_out_all_nodes(refusal: object) -> None:
    world = EngineOnTwoNodes(rules=rules_of(37))
    (profile,) = world.engine.profiles
    profile.pre_filter = (Stub("Never", pre_filter=refusal), *profile.pre_filter)
    decision = world.engine.decide(structs.replace(world.question(WEB, "a"), chosen_elsewhere=True))
    assert not len(decision.feasible)
    world.engine.place(WEB, "a", decision)
    assert (world.cpu_milli("a"), world.steps.reserved) == (1000, {pod_uid(WEB): "a"})


def test_what_is_bound_elsewhere_meanwhile_does_not_keep_the_engine_from_deciding_ahead() -> None:
    world = EngineOnTwoNodes()
    for number in range(3):
        pod = make_pod(f"web-{number}", requests={"cpu": "1"})
        decision = world.engine.decide(world.question(pod))
        world.engine.place(pod, "ab"[number % 2], decision)
        if number == 1:
            other = make_pod("other")
            world.engine.place(
                other, "a", world.engine.decide(structs.replace(world.question(other), chosen_elsewhere=True))
            )
        world.engine.prepare()
    assert decision.is_ahead


# Undoing.


def test_a_placement_that_is_undone_leaves_no_trace() -> None:
    world = EngineOnTwoNodes()
    world.engine.undo(world.engine.place(WEB, "a"), "not needed")
    assert (world.cpu_milli("a"), world.steps.reserved, len(world.cluster.placements)) == (0, {}, 0)


@pytest.mark.parametrize("step", ["permit", "pre-bind"])
def test_a_binding_that_waits_is_undone_and_its_caller_learns_why(step: str) -> None:
    pod = make_pod(step, requests={"cpu": "1"})
    world = EngineOnTwoNodes(pod)

    async def undo() -> None:
        placement = world.engine.place(pod, "a")
        binding = asyncio.create_task(world.engine.bind(placement))
        await world.reached(step)
        world.engine.undo(placement, "a more urgent pod came")
        with pytest.raises(BindError, match=f"^binding default/{step} to a: a more urgent pod came$"):
            await binding

    asyncio.run(undo())
    assert world.api.bound == []
    assert (world.cpu_milli("a"), world.steps.reserved, len(world.waiting_pods)) == (0, {}, 0)


def test_a_binding_is_undone_though_its_plugin_prepares_the_pod_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = make_pod("pre-bind", requests={"cpu": "1"})
    world = EngineOnTwoNodes(pod)
    prepare = world.steps.pre_bind

    async def prepare_to_the_end(*args: Any) -> None:
        with suppress(asyncio.CancelledError):
            await prepare(*args)

    monkeypatch.setattr(world.steps, "pre_bind", prepare_to_the_end)

    async def undo() -> None:
        placement = world.engine.place(pod, "a")
        binding = asyncio.create_task(world.engine.bind(placement))
        await world.reached("pre-bind")
        world.engine.undo(placement, "a more urgent pod came")
        with pytest.raises(BindError, match=r"^binding default/pre-bind to a: a more urgent pod came$"):
            await binding

    asyncio.run(undo())
    assert world.api.bound == []
    assert (world.cpu_milli("a"), world.steps.reserved) == (0, {})


@pytest.mark.parametrize(("said", "why"), [("no quota", "no quota"), ("", "it was cancelled")])
def test_a_binding_whose_plugin_cancels_its_task_says_so(said: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = make_pod("pre-bind", requests={"cpu": "1"})
    world = EngineOnTwoNodes(pod)

    async def prepare(*args: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel(said)
        await asyncio.sleep(60)

    monkeypatch.setattr(world.steps, "pre_bind", prepare)

    async def bind() -> None:
        await world.engine.bind(world.engine.place(pod, "a"))

    with pytest.raises(BindError, match=rf"^binding default/pre-bind to a: {why}$"):
        asyncio.run(bind())
    assert (world.cpu_milli("a"), world.steps.reserved) == (0, {})


def test_a_binding_that_is_undone_twice_reports_the_first_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = make_pod("pre-bind", requests={"cpu": "1"})
    world = EngineOnTwoNodes(pod)
    cleaning_up = asyncio.Event()

    async def prepare(*args: Any) -> None:
        world.steps.pre_binding.arrived.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaning_up.set()
            await asyncio.sleep(60)

    monkeypatch.setattr(world.steps, "pre_bind", prepare)

    async def undo() -> None:
        binding = asyncio.create_task(world.engine.bind(world.engine.place(pod, "a")))
        await world.reached("pre-bind")
        world.engine.binder.undo_all("the lease is gone")
        await cleaning_up.wait()
        await world.engine.binder.close(0)
        with pytest.raises(BindError, match=r"^binding default/pre-bind to a: the lease is gone$"):
            await binding

    asyncio.run(undo())


def test_a_binding_is_undone_before_its_first_step() -> None:
    world = EngineOnTwoNodes(WEB)

    async def undo() -> None:
        placement = world.engine.place(WEB, "a")
        binding = asyncio.create_task(world.engine.bind(placement))
        await asyncio.sleep(0)  # the binding is a task of its own, which has not begun
        assert not placement.assumed
        world.engine.undo(placement, "too late")
        with pytest.raises(BindError, match=r"^binding default/web to a: too late$"):
            await binding

    asyncio.run(undo())
    assert (world.api.bound, world.cpu_milli("a"), world.steps.reserved) == ([], 0, {})


@pytest.mark.parametrize("name", ["web", "permit"])
def test_a_pod_that_was_permitted_is_undone_before_its_binding_begins(name: str) -> None:
    pod = make_pod(name, requests={"cpu": "1"})
    world = EngineOnTwoNodes(pod)

    async def undo() -> None:
        placement = world.engine.place(pod, "a")
        world.engine.permit(placement)
        world.engine.undo(placement, "the pod is gone")

    asyncio.run(undo())
    assert (world.cpu_milli("a"), world.steps.reserved, len(world.waiting_pods)) == (0, {}, 0)


def test_a_pod_counts_as_being_bound_when_permit_is_asked_about_it() -> None:
    world = EngineOnTwoNodes(WEB)
    assumed: list[str] = []
    world.steps.asked_to_permit = lambda: assumed.extend(
        each.node_name for each in world.cluster.placements if each.assumed
    )
    placement = world.engine.place(WEB, "a")
    world.engine.permit(placement)
    with pytest.raises(CycleError, match=r"^pod default/web is being bound to a$"):
        world.engine.place(WEB, "b")
    asyncio.run(world.engine.bind(placement))
    assert assumed == ["a"]


def test_what_has_reached_bind_cannot_be_undone() -> None:
    world = EngineOnTwoNodes(WEB)
    hold = world.api.hold = Hold()

    async def undo() -> None:
        placement = world.engine.place(WEB, "a")
        binding = asyncio.create_task(world.engine.bind(placement))
        await world.reached("bind")
        world.engine.undo(placement, "too late")
        hold.go_on.set()
        await binding
        world.engine.undo(placement, "far too late")

    asyncio.run(undo())
    assert (world.cpu_milli("a"), world.steps.reserved) == (1000, {pod_uid(WEB): "a"})


def test_to_undo_what_has_ended_does_not_touch_what_came_after() -> None:
    world = EngineOnTwoNodes()
    first = world.engine.place(WEB, "a")
    world.engine.place(WEB, "a")
    world.engine.undo(first, "no longer needed")
    assert (world.cpu_milli("a"), world.steps.reserved) == (1000, {pod_uid(WEB): "a"})


def test_a_placement_that_the_watch_confirms_before_it_is_undone_is_bound() -> None:
    world = EngineOnTwoNodes(WEB)
    bound = world.note_bound()
    placement = world.engine.place(WEB, "a")
    world.engine.permit(placement)
    world.cluster.apply_pod(make_pod("web", "a", requests={"cpu": "1"}))
    assert bound.pods == []
    world.engine.undo(placement, "the pod is gone")
    assert (bound.pods, world.steps.reserved) == (["web on a"], {pod_uid(WEB): "a"})


# Binding.


@pytest.mark.parametrize("ended_by", ["deleted", "finished"])
def test_a_bound_pod_that_the_watch_shows_first_at_its_end_keeps_what_was_reserved(ended_by: str) -> None:
    world = EngineOnTwoNodes(WEB)
    bound = world.note_bound()
    asyncio.run(world.engine.bind(world.engine.place(WEB, "a")))
    if ended_by == "deleted":
        world.cluster.remove_pod(("default", "web"))
    else:
        world.cluster.apply_pod(make_pod("web", "a", phase="Succeeded", requests={"cpu": "1"}))
    assert (world.cpu_milli("a"), len(world.cluster.placements)) == (0, 0)
    assert (bound.pods, world.steps.reserved) == (["web on a"], {pod_uid(WEB): "a"})


def test_a_pod_that_ends_before_its_binding_is_answered_is_not_reported_as_bound() -> None:
    world = EngineOnTwoNodes(WEB)
    bound = world.note_bound()
    hold = world.api.hold = Hold()

    async def bind() -> None:
        binding = asyncio.create_task(world.engine.bind(world.engine.place(WEB, "a")))
        await world.reached("bind")
        world.cluster.remove_pod(("default", "web"))
        hold.go_on.set()
        await binding

    asyncio.run(bind())
    assert (bound.pods, world.steps.reserved) == ([], {})


def test_a_pod_is_bound_once_however_often_that_is_asked_for() -> None:
    world = EngineOnTwoNodes(WEB)
    hold = world.api.hold = Hold()

    async def bind() -> None:
        placement = world.engine.place(WEB, "a")
        binding = asyncio.create_task(world.engine.bind(placement))
        await world.reached("bind")
        with pytest.raises(BindError, match=r"^pod default/web is being bound to a$"):
            await world.engine.bind(placement)
        hold.go_on.set()
        await binding
        world.cluster.apply_pod(world.api.pods["default", "web"])
        await world.engine.bind(placement)

    asyncio.run(bind())
    assert [bound[1:] for bound in world.api.bound] == [("web", pod_uid(WEB), "a")]
    assert world.cpu_milli("a") == 1000


def test_a_pod_that_was_deleted_since_is_not_bound() -> None:
    world = EngineOnTwoNodes(WEB)
    placement = world.engine.place(WEB, "a")
    world.cluster.remove_pod(("default", "web"))
    with pytest.raises(BindError, match=r"^binding default/web to a: the pod does not count there any more$"):
        asyncio.run(world.engine.bind(placement))
    assert (world.api.bound, world.cpu_milli("a"), world.steps.reserved) == ([], 0, {})


def test_a_binding_goes_on_when_its_caller_is_cancelled() -> None:
    pod = make_pod("pre-bind", requests={"cpu": "1"})
    world = EngineOnTwoNodes(pod)

    async def bind() -> None:
        placement = world.engine.place(pod, "a")
        binding = asyncio.create_task(world.engine.bind(placement))
        await world.reached("pre-bind")
        binding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await binding
        under_way = world.engine.binder.binding_of(pod_uid(pod))
        assert under_way is not None
        world.steps.pre_binding.go_on.set()
        await under_way.task

    asyncio.run(bind())
    assert [bound[1] for bound in world.api.bound] == ["pre-bind"]
    assert world.cpu_milli("a") == 1000
