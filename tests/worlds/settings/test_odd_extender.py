"""An extender that is odd leaves no pod waiting for an event that does not come."""

import msgspec

from tests.worlds.api_server.messages import Delayed, Request, Response
from tests.worlds.settings.odd_extender import OddExtender
from tests.worlds.simulation.world import World

NODES = ["a", "b", "c"]
FILTER = Request("POST", "/filter", body=msgspec.json.encode({"Nodes": None, "NodeNames": NODES}))


def passed(answer: Response) -> list[str] | None:
    """Return the nodes that an answer lets pass; None if it is an error."""
    if answer.status != 200:
        return None
    try:
        result = answer.json()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    names: list[str] = result.get("NodeNames") or []
    return None if result.get("Error") or not set(names) <= set(NODES) else names


def test_each_answer_of_filter_is_an_error_or_lets_a_node_pass() -> None:
    extender = OddExtender(World(1), until=1.0)
    kinds = set()
    for _ in range(1000):
        answer = extender._answer(FILTER)
        while isinstance(answer, Delayed):
            answer = answer.proceed()
        assert isinstance(answer, Response)
        names = passed(answer)
        assert names is None or names
        kinds.add(None if names is None else len(names))
    assert kinds == {None, 1, 2, 3}
