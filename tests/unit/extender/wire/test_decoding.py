import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.extender.wire.decoding import ArgsDecoder, error_text
from extender_service.extender.wire.request_limits import LARGE_BODY_BYTES
from extender_service.kube.parsing.decoder import DecodeError
from extender_service.kube.types.extender_api import (
    ErrorResult,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    ResultNodeList,
)

nodes_args = ArgsDecoder(ExtenderArgs)
preemption_args = ArgsDecoder(ExtenderPreemptionArgs)
binding_args = ArgsDecoder(ExtenderBindingArgs)

POD = {"metadata": {"name": "web", "creationTimestamp": None, "labels": None}, "spec": {"containers": None}}

cases = st.sampled_from([str.lower, str.upper, str.title, str])


def encode(value: object) -> bytes:
    return json.dumps(value).encode()


# As Go writes them: what is nil is null.


def test_node_names_as_go_sends_them() -> None:
    args = nodes_args.decode(encode({"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}))
    assert args.pod is not None
    assert (args.pod.metadata.name, args.pod.spec.containers) == ("web", ())
    assert (args.nodes, args.node_names) == (None, ["a", "b"])


def test_whole_nodes_as_go_sends_them() -> None:
    nodes = {"metadata": {"resourceVersion": ""}, "items": [{"metadata": {"name": "a", "labels": None}}]}
    args = nodes_args.decode(encode({"Pod": POD, "Nodes": nodes, "NodeNames": None}))
    assert args.nodes is not None
    assert [json.loads(bytes(item)) for item in args.nodes.items] == nodes["items"]
    assert args.node_names is None


def test_no_whole_nodes_are_null_to_go() -> None:
    args = nodes_args.decode(encode({"Pod": POD, "Nodes": {"metadata": {}, "items": None}, "NodeNames": None}))
    assert args.nodes is not None
    assert args.nodes.items == ()


def test_victims_as_go_sends_them() -> None:
    victims = {
        "a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1},
        "b": {"Pods": None, "NumPDBViolations": 0},
        "c": None,
    }
    args = preemption_args.decode(encode({"Pod": POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}))
    assert args.node_name_to_victims is None
    assert args.node_name_to_meta_victims == {
        "a": MetaVictims([MetaPod("u")], 1),
        "b": MetaVictims(),
        "c": MetaVictims(),
    }


# In any case, with anything else.


@given(case=cases)
def test_field_names_in_any_case(case: Any) -> None:
    args = nodes_args.decode(encode({case("Pod"): POD, case("NodeNames"): ["a"]}))
    assert args.pod is not None
    assert (args.pod.metadata.name, args.node_names) == ("web", ["a"])
    uids = {case("Pods"): [{case("UID"): "u"}], case("NumPDBViolations"): 2}
    preemption = preemption_args.decode(encode({case("Pod"): POD, case("NodeNameToMetaVictims"): {"Node-A": uids}}))
    assert preemption.node_name_to_meta_victims == {"Node-A": MetaVictims([MetaPod("u")], 2)}
    pods = {case("Pods"): [{"metadata": {"uid": "u"}}], case("NumPDBViolations"): 2}
    preemption = preemption_args.decode(encode({case("Pod"): POD, case("NodeNameToVictims"): {"Node-A": pods}}))
    assert preemption.node_name_to_victims is not None
    assert [pod.metadata.uid for pod in preemption.node_name_to_victims["Node-A"].pods] == ["u"]
    fields = {case(name): name for name in ("PodName", "PodNamespace", "PodUID", "Node")}
    assert binding_args.decode(encode(fields)) == ExtenderBindingArgs("PodName", "PodNamespace", "PodUID", "Node")


def test_whole_nodes_are_kept_as_they_came_in_any_case() -> None:
    node = '{ "metadata":{"name":"a"}, "odd" : 1.50}'
    args = nodes_args.decode(f'{{"pod":{{}},"nodes":{{"items":[{node}]}}}}'.encode())
    assert args.nodes is not None
    assert [bytes(item).decode() for item in args.nodes.items] == [node]


def test_unknown_fields_are_ignored() -> None:
    pod = {"metadata": {"name": "web", "odd": [1]}, "spec": {"volumes": [{}], "odd": {"a": None}}}
    args = nodes_args.decode(encode({"Odd": {"x": [1, None]}, "Pod": pod, "NodeNames": ["a"]}))
    assert args.pod is not None
    assert args.pod.metadata.name == "web"
    assert binding_args.decode(encode({"odd": 1, "Node": "a"})).node == "a"


# What cannot be read.


@pytest.mark.parametrize("decoder", [nodes_args, preemption_args, binding_args])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"<html>",
        b"null",
        b"[]",
        b"1",
        b'"Pod"',
        b'{"Pod":{}} {}',
        b'{"Pod":{},}',
        b"\xff\xfe{}",
        b'{"\xff": 1}',
        b'{"a":' * 100_000,
        b'{"Odd":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_not_a_json_object_is_refused(decoder: ArgsDecoder[Any], body: bytes) -> None:
    with pytest.raises(DecodeError):
        decoder.decode(body)


def test_a_body_in_another_encoding_is_told_so() -> None:
    with pytest.raises(DecodeError, match=r"^the body is not UTF-8$"):
        nodes_args.decode(b'{"\xff": 1}')


@pytest.mark.parametrize(
    ("decoder", "body", "field"),
    [
        (nodes_args, {"Pod": []}, "$.Pod"),
        (nodes_args, {"pod": "web", "nodenames": []}, "$.Pod"),
        (nodes_args, {"Pod": {"metadata": {"name": 5}}, "NodeNames": []}, "$.Pod.metadata.name"),
        (nodes_args, {"Pod": {"spec": {"priority": 1.5}}, "NodeNames": []}, "$.Pod.spec.priority"),
        (nodes_args, {"Pod": {"metadata": {"labels": {"a": 1}}}, "NodeNames": []}, "$.Pod.metadata.labels[...]"),
        (nodes_args, {"Pod": {}, "NodeNames": "a"}, "$.NodeNames"),
        (nodes_args, {"Pod": {}, "NodeNames": ["a", 1]}, "$.NodeNames[1]"),
        (nodes_args, {"Pod": {}, "Nodes": {"items": {}}}, "$.Nodes.items"),
        (preemption_args, {"Pod": {}, "NodeNameToMetaVictims": []}, "$.NodeNameToMetaVictims"),
        (preemption_args, {"nodenametometavictims": {"a": {"pods": 1}}}, "$.NodeNameToMetaVictims[...].Pods"),
        (preemption_args, {"NodeNameToVictims": {"a": {"NumPDBViolations": "1"}}}, "[...].NumPDBViolations"),
        (binding_args, {"PodName": {}}, "$.PodName"),
    ],
)
def test_the_field_of_the_wrong_type_is_named(decoder: ArgsDecoder[Any], body: object, field: str) -> None:
    with pytest.raises(DecodeError) as raised:
        decoder.decode(encode(body))
    assert field in str(raised.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["Pod", "nodes", "NodeNames", "items", "Pods", "UID", "metadata", "spec", "name", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(value=json_values)
def test_any_json_is_decoded_or_refused(value: object) -> None:
    for decoder in (nodes_args, preemption_args, binding_args):
        try:
            args = decoder.decode(encode(value))
        except DecodeError:
            continue
        assert isinstance(value, dict)
        assert isinstance(args, (ExtenderArgs, ExtenderPreemptionArgs, ExtenderBindingArgs))


@given(body=st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    for decoder in (nodes_args, preemption_args, binding_args):
        try:
            decoder.decode(body)
        except DecodeError:
            continue
        assert body.strip().startswith(b"{")


# Answers, with the names that Go knows.


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (
            ExtenderFilterResult(node_names=["a"], failed_nodes={"b": "x"}),
            {
                "Nodes": None,
                "NodeNames": ["a"],
                "FailedNodes": {"b": "x"},
                "FailedAndUnresolvableNodes": {},
                "Error": "",
            },
        ),
        (
            ExtenderFilterResult(nodes=ResultNodeList([msgspec.Raw(b'{"kind":"Node"}')])),
            {
                "Nodes": {"items": [{"kind": "Node"}]},
                "NodeNames": None,
                "FailedNodes": {},
                "FailedAndUnresolvableNodes": {},
                "Error": "",
            },
        ),
        ([HostPriority("a", 7)], [{"Host": "a", "Score": 7}]),
        (
            ExtenderPreemptionResult({"a": MetaVictims([MetaPod("u")], 1)}),
            {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}},
        ),
        (ExtenderBindingResult(), {"Error": ""}),
        (ErrorResult("no"), {"Error": "no"}),
    ],
)
def test_answers_are_written_as_go_reads_them(answer: object, written: object) -> None:
    assert json.loads(msgspec.json.encode(answer)) == written


def test_an_error_is_no_format_string() -> None:
    assert error_text("90% of 100%d") == "90(percent) of 100(percent)d"
    assert error_text("plain") == "plain"


def test_a_new_decoder_takes_names_in_any_case_at_once() -> None:
    args = ArgsDecoder(ExtenderBindingArgs).decode(b'{"podname": "web", "PODUID": "u", "Node": "a", "extra": 1}')
    assert (args.pod_name, args.pod_namespace, args.pod_uid, args.node) == ("web", "", "u", "a")


def test_an_error_that_quotes_too_much_is_cut() -> None:
    assert error_text("x" * 10_000) == "x" * 4_000 + "… (6000 more characters)"


LARGE = b" " * LARGE_BODY_BYTES


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (LARGE + b"<html>", "JSON is malformed"),
        (LARGE + b'{"\xff": 1}', "UTF-8"),
        (LARGE + b'{"Odd": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (LARGE + b'{"Pod": []}', "$.Pod"),
    ],
    ids=["not JSON", "not UTF-8", "too deep", "wrong type"],
)
def test_of_a_large_body_the_same_is_told_as_of_a_small_one(body: bytes, says: str) -> None:
    for sent in (body, body.lstrip()):
        with pytest.raises(DecodeError) as error:
            nodes_args.decode(sent)
        assert says in str(error.value)


def test_an_error_is_cut_where_it_is_too_long_to_be_shown() -> None:
    assert error_text("x" * 4000) == "x" * 4000
    assert error_text("x" * 4007) == "x" * 4000 + "… (7 more characters)"
