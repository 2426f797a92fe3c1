import msgspec
import pytest

from extender_service.kube.parsing.decoder import DecodeError, Decoder
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
