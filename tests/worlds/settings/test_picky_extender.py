"""An extender that is picky about victims answers in each way, and agrees to everything in the end."""

import msgspec

from tests.worlds.api_server.messages import Delayed, Request, Response
from tests.worlds.settings.picky_extender import PickyExtender
from tests.worlds.simulation.world import World

VICTIMS = {name: {"Pods": [{"UID": f"pod-on-{name}"}], "NumPDBViolations": 0} for name in ("a", "b")}
PREEMPT = Request("POST", "/preempt", body=msgspec.json.encode({"NodeNameToMetaVictims": VICTIMS}))


def victims(extender: PickyExtender) -> dict[str, list[str]]:
    """The UIDs of victims in its answer, by node."""
    answer = extender._answer(PREEMPT)
    while isinstance(answer, Delayed):
        answer = answer.proceed()
    assert isinstance(answer, Response)
    nodes = answer.json()["NodeNameToMetaVictims"]
    return {name: [pod["UID"] for pod in each["Pods"]] for name, each in nodes.items()}


def test_it_leaves_out_a_node_or_victims_and_names_strangers() -> None:
    extender = PickyExtender(World(1), until=1.0)
    answers = [victims(extender) for _ in range(300)]
    all_of_them = {"a": ["pod-on-a"], "b": ["pod-on-b"]}
    assert all_of_them in answers
    assert {"b": ["pod-on-b"]} in answers
    assert all_of_them | {"a": []} in answers
    assert all_of_them | {"b": ["no-such-pod"]} in answers
    assert all_of_them | {"no-such-node": ["no-such-pod"]} in answers


def test_it_agrees_from_a_time_on() -> None:
    extender = PickyExtender(World(1), until=0.0)
    assert all(victims(extender) == {"a": ["pod-on-a"], "b": ["pod-on-b"]} for _ in range(100))
