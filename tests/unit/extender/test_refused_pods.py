import msgspec
import pytest
from msgspec import structs

from extender_service.extender.refused_pods import MOST_BYTES, RefusedPods
from extender_service.extender.wire.requested_nodes import RequestedNodes
from extender_service.kube.types.extender_api import ExtenderArgs, NodeList
from tests.support.clock import Clock
from tests.support.clusters.engines import EngineOnTwoNodes
from tests.support.objects import make_node, make_pod

WEB = make_pod("web", requests={"cpu": "5"})


def refused_pods(world: EngineOnTwoNodes) -> RefusedPods:
    refused = RefusedPods(world.cluster, Clock())
    refused.is_kept = True
    return refused


def asked(world: EngineOnTwoNodes, refused: RefusedPods) -> list[str]:
    """The nodes that were asked about, of those that there are now."""
    (refusal,) = refused.all()
    nodes = world.engine.nodes.marked(refused.marked(refusal))
    return list(nodes.names)


@pytest.mark.parametrize("others", [0, 50])
def test_a_pod_is_kept_with_the_nodes_that_were_asked_about(others: int) -> None:
    world = EngineOnTwoNodes()
    for number in range(others):
        world.cluster.apply_node(make_node(f"other-{number}"))
    refused = refused_pods(world)
    refused.note(WEB, world.engine.nodes.named(["b", "new"]))
    assert asked(world, refused) == ["b"]
    world.cluster.apply_node(make_node("new"))
    world.cluster.apply_node(make_node("newer"))
    assert sorted(asked(world, refused)) == ["b", "new"]
    (refusal,) = refused.all()
    assert refusal.read_pod() == WEB


def test_a_later_refusal_takes_the_place_of_an_earlier_one() -> None:
    world = EngineOnTwoNodes()
    refused = refused_pods(world)
    refused.note(WEB, world.engine.nodes.named(["a"]))
    refused.note_withheld(WEB)
    refused.note(WEB, world.engine.nodes.named(["b"]))
    assert asked(world, refused) == ["b"]
    assert not refused.all()[0].is_withheld


def test_a_pod_that_was_kept_from_preempting_is_kept_even_if_its_refusal_was_not() -> None:
    world = EngineOnTwoNodes()
    refused = refused_pods(world)
    refused.note_withheld(WEB)
    assert asked(world, refused) == []
    assert [refusal.is_withheld for refusal in refused.all()] == [True]


def test_pods_are_forgotten() -> None:
    world = EngineOnTwoNodes()
    refused = refused_pods(world)
    refused.note(WEB, world.engine.nodes.all())
    refused.forget("uid-of-another")
    assert len(refused) == 1
    refused.forget("uid-of-web")
    assert len(refused) == 0
    refused.note(WEB, world.engine.nodes.all())
    refused.clear()
    assert len(refused) == 0


def test_nothing_is_kept_unless_pods_are_asked_about_again() -> None:
    world = EngineOnTwoNodes()
    refused = RefusedPods(world.cluster, Clock())
    refused.note(WEB, world.engine.nodes.all())
    refused.note_withheld(WEB)
    assert len(refused) == 0


def test_large_pods_take_no_more_than_the_bound() -> None:
    world = EngineOnTwoNodes()
    refused = refused_pods(world)
    for number in range(40):
        pod = make_pod(f"web-{number}")
        annotations = {"note": "x" * (1 << 20)}
        refused.note(
            structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations)),
            world.engine.nodes.all(),
        )
    assert 4 < len(refused) < 17
    assert sum(len(refusal.pod) for refusal in refused.all()) < MOST_BYTES
    huge = structs.replace(WEB, metadata=structs.replace(WEB.metadata, annotations={"note": "x" * MOST_BYTES}))
    refused.note(huge, world.engine.nodes.all())
    refused.note_withheld(huge)
    assert "uid-of-web" not in {refusal.uid for refusal in refused.all()}


def test_whole_nodes_are_kept_by_their_names() -> None:
    world = EngineOnTwoNodes()
    refused = refused_pods(world)
    items = tuple(msgspec.Raw(msgspec.json.encode(make_node(name))) for name in ("new", "b"))
    nodes = RequestedNodes(world.cluster, world.engine.nodes).find(ExtenderArgs(WEB, NodeList(items)))
    refused.note(WEB, nodes)
    assert asked(world, refused) == ["b"]
    world.cluster.apply_node(make_node("new"))
    assert asked(world, refused) == ["b", "new"]


def test_a_pod_that_cannot_be_written_as_json_is_not_kept() -> None:
    world = EngineOnTwoNodes()
    refused = refused_pods(world)
    metadata = structs.replace(WEB.metadata, labels={"a": "\ud800"})
    refused.note(structs.replace(WEB, metadata=metadata), world.engine.nodes.named(["b"]))
    refused.note_withheld(structs.replace(WEB, metadata=metadata))
    assert len(refused) == 0
