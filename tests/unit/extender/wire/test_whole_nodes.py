import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.extender.wire.bodies import Body
from extender_service.extender.wire.whole_nodes import encode_with_nodes
from extender_service.kube.types.extender_api import ExtenderFilterResult, NodeList, ResultNodeList

SPACES = st.sampled_from(["", " ", "\n\t"])


class Request(msgspec.Struct, rename="pascal"):
    nodes: NodeList


def body_of(nodes: list[dict[str, str]], space: str = "") -> bytes:
    items = f"{space},{space}".join(msgspec.json.encode(node).decode() for node in nodes)
    return f'{{"Pod":{{"items":[]}},"Nodes":{{"items":[{space}{items}{space}]}}}}'.encode()


def result_of(items: tuple[msgspec.Raw, ...], passing: list[int]) -> ExtenderFilterResult:
    return ExtenderFilterResult(nodes=ResultNodeList([items[index] for index in passing]), failed_nodes={"[": "no"})


def encoded(body: Body, passing: list[int]) -> tuple[bytes | memoryview, ...]:
    items = msgspec.json.decode(body, type=Request).nodes.items
    return encode_with_nodes(result_of(items, passing), items, np.array(passing, np.intp), body)


@given(
    nodes=st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2), min_size=1, max_size=12),
    space=SPACES,
    data=st.data(),
)
def test_the_nodes_that_pass_go_back_as_they_came(nodes: list[dict[str, str]], space: str, data: st.DataObject) -> None:
    passing = sorted(data.draw(st.sets(st.integers(0, len(nodes) - 1))))
    for body in (body_of(nodes, space), bytearray(body_of(nodes, space))):
        items = msgspec.json.decode(body, type=Request).nodes.items
        answer = msgspec.json.decode(b"".join(encoded(body, passing)))
        assert answer == msgspec.json.decode(msgspec.json.encode(result_of(items, passing)))
        assert answer["Nodes"]["items"] == [nodes[index] for index in passing]


@pytest.mark.parametrize(("passing", "runs"), [(range(9), 1), ([0, 1, 2, 5, 6, 8], 3), ([4], 1)])
def test_nodes_are_not_copied_into_the_answer(passing: list[int], runs: int) -> None:
    body = bytearray(body_of([{"name": f"node-{number}"} for number in range(9)]))
    views = [piece for piece in encoded(body, list(passing)) if isinstance(piece, memoryview)]
    assert len(views) == runs
    assert all(view.obj is body for view in views)


def test_nodes_of_which_every_other_passes_are_copied() -> None:
    body = body_of([{"name": f"node-{number}"} for number in range(600)])
    passing = list(range(0, 600, 2))
    (answer,) = encoded(body, passing)
    assert len(msgspec.json.decode(answer)["Nodes"]["items"]) == 300


def test_nodes_that_were_decoded_from_a_copy_of_the_body_are_copied() -> None:
    body = body_of([{"name": "a"}, {"name": "b"}])
    items = msgspec.json.decode(bytes(bytearray(body)), type=Request).nodes.items
    (answer,) = encode_with_nodes(result_of(items, [0, 1]), items, np.array([0, 1]), body)
    assert [node["name"] for node in msgspec.json.decode(answer)["Nodes"]["items"]] == ["a", "b"]
