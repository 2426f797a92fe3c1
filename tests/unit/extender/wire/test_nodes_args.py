import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.extender.wire.decoding import ArgsDecoder
from extender_service.extender.wire.nodes_args import ExtenderArgsDecoder
from extender_service.extender.wire.request_limits import LARGE_BODY_BYTES, MOST_OBJECT_BYTES
from extender_service.kube.parsing.decoder import DecodeError
from extender_service.kube.types.extender_api import ExtenderArgs

POD = {"metadata": {"name": "web"}}


def body(names: object, **others: object) -> bytes:
    return msgspec.json.encode({"Pod": POD, "NodeNames": names, **others})


def decoded(decoder: ExtenderArgsDecoder | ArgsDecoder[ExtenderArgs], encoded: bytes) -> ExtenderArgs | str:
    try:
        return decoder.decode(encoded)
    except DecodeError as error:
        return str(error)


def test_the_same_names_are_read_once() -> None:
    decoder = ExtenderArgsDecoder()
    first, second = decoder.decode(body(["a", "b"])), decoder.decode(body(["a", "b"]))
    assert first.node_names == ["a", "b"]
    assert second.node_names is first.node_names
    assert decoder.decode(body(["b", "a"])).node_names == ["b", "a"]


def test_a_pod_that_is_asked_about_again_is_read_once() -> None:
    decoder = ExtenderArgsDecoder()
    decoder.decode(body(["a"]))
    first, second = decoder.decode(body(["a"])), decoder.decode(body(["a"]))
    assert first.pod is not None
    assert second == first
    assert second.pod is first.pod


def test_another_pod_is_never_taken_for_one_that_came_before() -> None:
    decoder = ExtenderArgsDecoder()
    for number in (0, 1, 0, 2, 1, 3, 4, 5, 6, 0):
        pod = decoder.decode(body(["a"], Pod={"metadata": {"name": f"web-{number}"}})).pod
        assert pod is not None
        assert pod.metadata.name == f"web-{number}"


def test_only_the_last_few_lists_are_kept() -> None:
    decoder = ExtenderArgsDecoder()
    first = decoder.decode(body(["a"])).node_names
    for number in range(10):
        decoder.decode(body([str(number)]))
    assert decoder.decode(body(["a"])).node_names is not first


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.just({"items": []})))
def test_all_else_is_read_as_ever(names: object) -> None:
    decoder, careful = ExtenderArgsDecoder(), ArgsDecoder(ExtenderArgs)
    for encoded in (body(names), body(names, Nodes=names), msgspec.json.encode({"nodenames": names, "pod": POD})):
        assert decoded(decoder, encoded) == decoded(careful, encoded)


@given(
    st.text('{}[]",:\\\\ aP', max_size=12)
    | st.sampled_from(["{", '{"Pod":{},"a\\', '{"Pod":{}', '{"Pod":{"a":"\\\\', '{"NodeNames":["b"],"Pod":{}'])
)
def test_a_known_end_of_a_body_is_names_only_where_it_is_in_json(start: str) -> None:
    decoder, careful = ExtenderArgsDecoder(), ArgsDecoder(ExtenderArgs)
    decoder.decode(body(["a"]))
    encoded = start.encode() + b',"NodeNames":["a"]}'
    assert decoded(decoder, encoded) == decoded(careful, encoded)


def test_a_body_in_pieces_is_read_as_one() -> None:
    decoder = ExtenderArgsDecoder()
    first, second = decoder.decode(bytearray(body(["a"]))), decoder.decode(bytearray(body(["a"])))
    assert second == first
    assert second.node_names is first.node_names


@pytest.mark.parametrize(
    "broken", [b"", b"{", b'{"Pod":{},"NodeNames":["\xff"]}', b'{"Pod":{},"NodeNames":[' + b"[" * 10**5]
)
def test_what_is_no_request_is_refused(broken: bytes) -> None:
    with pytest.raises(DecodeError):
        ExtenderArgsDecoder().decode(broken)


DEEP = b'[{"fieldsType":"FieldsV1","fieldsV1":' + b'{"f:x":' * 9_000 + b"{}" + b"}" * 9_000 + b"}]"


@pytest.mark.parametrize("spaces", [0, 2 * LARGE_BODY_BYTES], ids=["small body", "large body"])
@pytest.mark.parametrize("names", [b"Pod,NodeNames", b"pod,nodenames"])
def test_a_pod_whose_managed_fields_are_deeply_nested_is_read(names: bytes, spaces: int) -> None:
    pod = b'{"metadata":{"name":"web","managedFields":%b}}' % DEEP
    encoded = b'{"%b":%b,"%b":["a"]%b}' % (names.split(b",")[0], pod, names.split(b",")[1], b" " * spaces)
    args = ExtenderArgsDecoder().decode(encoded)
    assert args.pod is not None
    assert (args.pod.metadata.name, args.node_names) == ("web", ["a"])


def test_whole_nodes_whose_managed_fields_are_deeply_nested_are_read() -> None:
    node = b'{"metadata":{"name":"a","managedFields":%b}}' % DEEP
    args = ExtenderArgsDecoder().decode(b'{"Pod":{"metadata":{"name":"web"}},"Nodes":{"items":[%b]}}' % node)
    assert args.nodes is not None
    assert [msgspec.json.decode(item)["metadata"]["name"] for item in args.nodes.items] == ["a"]


def test_a_pod_that_is_too_large_is_refused_also_where_it_is_deeply_nested() -> None:
    pod = b'{"metadata":{"name":"web","managedFields":%b},"other":"%b"}' % (DEEP, b"x" * MOST_OBJECT_BYTES)
    with pytest.raises(DecodeError, match=r"^Pod has \d+ bytes, of which 4194304 are the most$"):
        ExtenderArgsDecoder().decode(b'{"Pod":%b,"NodeNames":["a"]}' % pod)
