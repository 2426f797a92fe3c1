import json
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.kube.parsing import decoder
from extender_service.kube.parsing.decoder import DecodeError, Decoder, without_deep_values
from extender_service.kube.types.core import (
    Container,
    LabelSelector,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
    Taint,
)

pods = Decoder(Pod)
nodes = Decoder(Node)


def test_unknown_fields_are_skipped() -> None:
    pod = pods.decode(b'{"kind": "Pod", "metadata": {"name": "web", "managedFields": [{}]}, "spec": {"volumes": []}}')
    assert pod == Pod(ObjectMeta(name="web"))


def test_raw_parts_of_a_larger_message_can_be_decoded() -> None:
    assert pods.decode(msgspec.Raw(b'{"metadata": {"name": "web"}}')).metadata.name == "web"


def test_null_fields_count_as_absent() -> None:
    pod = pods.decode(
        b'{"metadata": {"name": "web", "creationTimestamp": null, "labels": null},'
        b' "spec": {"priority": null, "affinity": null, "containers": [{"image": "nginx", "resources": null}]},'
        b' "status": null}'
    )
    assert pod == Pod(ObjectMeta(name="web"), PodSpec(containers=(Container(image="nginx"),)))


def test_null_elements_count_as_zero_values() -> None:
    node = nodes.decode(
        b'{"metadata": {"labels": {"app": "a", "empty": null}}, "spec": {"taints": [null, {"key": "k", "value": null}]}'
        b', "status": {"allocatable": {"cpu": null, "memory": "1Gi"}}}'
    )
    assert node.metadata.labels == {"app": "a", "empty": ""}
    assert node.spec.taints == (Taint(), Taint("k"))
    assert node.status == NodeStatus({"cpu": 0, "memory": "1Gi"})


def test_null_in_an_optional_object_does_not_hide_its_other_fields() -> None:
    pod = pods.decode(
        b'{"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":'
        b' [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": null}}]}}}}'
    )
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.pod_affinity is not None
    (term,) = pod.spec.affinity.pod_affinity.required
    assert term.label_selector == LabelSelector({"a": "b"})


def test_raw_fields_keep_their_nulls() -> None:
    class Envelope(msgspec.Struct):
        items: list[msgspec.Raw] = []
        names: list[str] = []

    envelope = Decoder(Envelope).decode(b'{"items": [{"spec": null}], "names": null}')
    assert envelope.names == []
    assert [bytes(item) for item in envelope.items] == [b'{"spec": null}']


def test_numbers_are_accepted_as_quantities() -> None:
    pod = pods.decode(b'{"spec": {"containers": [{"resources": {"requests": {"cpu": 0.5, "memory": 1024}}}]}}')
    assert pod.spec.containers[0].resources == ResourceRequirements({"cpu": 0.5, "memory": 1024})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"spec": {"priority": "high"}}', "Expected `int`, got `str` - at `$.spec.priority`"),
        (
            b'{"metadata": {"uid": null}, "spec": {"containers": [{}, {"image": 5}]}}',
            "Expected `str`, got `int` - at `$.spec.containers[1].image`",
        ),
        (b'{"metadata": {"labels": {"a": true}}}', "Expected `str`, got `bool` - at `$.metadata.labels[...]`"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b"", "Input data was truncated"),
        (b'{"spec"]', "JSON is malformed: expected ':' (byte 7)"),
        (b'{"metadata": {"name": "\xff"}}', "the input is not UTF-8"),
        (b'{"unknown": ' + b"[" * 100_000, "the input is nested too deeply"),
        (b'{"spec": null, "unknown": ' + b"[" * 100_000, "the input is nested too deeply"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as error:
        pods.decode(data)
    assert str(error.value) == message


# What is nested more deeply than msgspec reads.


@pytest.mark.parametrize("levels", [*range(600, 1000, 7), 3_000, 10_000])
@pytest.mark.parametrize("labels", [b"{}", b"null"])
def test_what_is_skipped_may_be_nested_as_deeply_as_go_reads(labels: bytes, levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    pod = pods.decode(b'{"metadata": {"labels": %b, "unknown": %b, "name": "web"}}' % (labels, deep))
    assert pod == Pod(ObjectMeta(name="web"))


@pytest.mark.parametrize(
    "data",
    [
        b'{"unknown": ' + b'{"a": [' * 5_100 + b"]}" * 5_100 + b"}",
        b'{"unknown": ' + b"[" * 10_050 + b"]" * 10_050 + b"}" + b" " * (32 << 20),
    ],
    ids=["more levels than Go reads", "more bytes than a page of a list has"],
)
def test_what_is_nested_too_deeply_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^the input is nested too deeply$"):
        pods.decode(data)


@pytest.mark.parametrize("depth", [0, 150, 200])
def test_without_deep_values_nothing_is_left_out_of_what_is_not_deep(depth: int) -> None:
    with pytest.raises(DecodeError, match=r"^the input is nested too deeply$"):
        without_deep_values(b"[" * depth + b"]" * depth)


texts = st.text('a[]{}",:\\ä\n', max_size=6)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def emptied(value: Any, level: int = 1) -> Any:
    """The value, with the lists and objects at level 200 empty."""
    match value:
        case list():
            return [emptied(element, level + 1) for element in value] if level < 200 else []
        case dict():
            return {key: emptied(member, level + 1) for key, member in value.items()} if level < 200 else {}
    return value


@given(values, values, st.integers(190, 200), st.integers(1, 40))
def test_lists_and_objects_at_level_200_are_empty_and_all_else_is_as_it_was(
    early: object, late: object, levels: int, chunk_bytes: int
) -> None:
    """Wherever the JSON is cut into chunks."""
    deep: object = "deep"
    for _ in range(20):
        deep = [deep]
    value: object = [early, deep, late]
    for number in range(levels):
        value = {"[": value, "late": early} if number % 2 else [value, late]
    encoded = json.dumps(value, ensure_ascii=False).encode()
    with patch.object(decoder, "_CHUNK_BYTES", chunk_bytes):
        assert json.loads(without_deep_values(encoded)) == emptied(value)
