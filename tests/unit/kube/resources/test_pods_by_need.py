"""Pending pods of the given schedulers are decoded whole; all others stay small."""

import json
from typing import Any

import msgspec
import pytest

from extender_service.kube.parsing.decoder import DecodeError
from extender_service.kube.resources.api_resources import Resource
from extender_service.kube.resources.nodes_with_json import NODES_WITH_JSON
from extender_service.kube.resources.pods_by_need import pods_by_need
from extender_service.kube.types.pending_pods import PendingPod
from extender_service.kube.types.watched_pods import WatchedPod

RESOURCE = pods_by_need(["default-scheduler"])


def pod(node_name: str, scheduler_name: str) -> dict[str, object]:
    spec = {"nodeName": node_name, "schedulerName": scheduler_name, "tolerations": [{"key": "k"}]}
    return {"metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}}, "spec": spec}


@pytest.mark.parametrize(
    ("node_name", "scheduler_name", "kind"),
    [
        ("", "default-scheduler", PendingPod),
        ("n", "default-scheduler", WatchedPod),
        ("", "other", WatchedPod),
    ],
)
def test_a_pod_is_decoded_as_far_as_it_is_needed(node_name: str, scheduler_name: str, kind: type) -> None:
    shown = pod(node_name, scheduler_name)
    frame = RESOURCE.frame_decoder.decode(msgspec.json.encode({"type": "ADDED", "object": shown}))
    page = RESOURCE.list_decoder.decode(
        msgspec.json.encode({"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [shown]})
    )
    assert (frame.type, type(frame.object)) == ("ADDED", kind)
    assert (page.metadata.resource_version, page.metadata.next_token) == ("7", "next")
    assert [type(item) for item in page.items] == [kind]


def test_a_pod_on_no_node_may_have_another_field_of_that_name() -> None:
    shown: dict[str, Any] = pod("", "default-scheduler")
    del shown["spec"]["nodeName"]
    shown["metadata"]["labels"] = {"nodeName": "n"}
    for scheduler_name, kind in (("default-scheduler", PendingPod), ("other", WatchedPod)):
        shown["spec"]["schedulerName"] = scheduler_name
        found = RESOURCE.frame_decoder.decode(msgspec.json.encode({"type": "ADDED", "object": shown})).object
        assert (type(found), found.spec.node_name) == (kind, "")


def test_nulls_are_read_as_elsewhere() -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"p","labels":null},"spec":{"nodeName":null,'
    line += b'"schedulerName":"default-scheduler","tolerations":null}}}'
    found = RESOURCE.frame_decoder.decode(line).object
    assert isinstance(found, PendingPod)
    assert found.spec.tolerations == ()


def test_an_error_of_the_watch_is_no_pod() -> None:
    line = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}'
    assert RESOURCE.frame_decoder.decode(line).type == "ERROR"


def test_extenders_get_pods_and_nodes_as_the_api_server_sent_them_without_managed_fields() -> None:
    shown = pod("", "default-scheduler")
    metadata: Any = shown["metadata"]
    sent = {**shown, "metadata": {**metadata, "managedFields": [{"manager": "kubectl"}]}, "other": [1]}
    line = msgspec.json.encode({"type": "MODIFIED", "object": sent})
    found = pods_by_need(["default-scheduler"], keeps_json=True).frame_decoder.decode(line).object
    assert json.loads(found.whole_json) == {**shown, "other": [1]}
    assert RESOURCE.frame_decoder.decode(line).object.whole_json == b""
    node = NODES_WITH_JSON.frame_decoder.decode(line).object
    assert json.loads(node.whole_json) == {**shown, "other": [1]}
    [listed] = NODES_WITH_JSON.list_decoder.decode(msgspec.json.encode({"items": [sent]})).items
    assert listed == node


# Each step of reading begins at another depth of Python's stack, so the JSON may be too deep for some of them only.
@pytest.mark.parametrize("resource", [pods_by_need(["default-scheduler"], keeps_json=True), NODES_WITH_JSON])
def test_an_object_is_read_however_deeply_its_managed_fields_are_nested(resource: Resource[Any]) -> None:
    for levels in (*range(600, 1000), 3_000):
        fields = msgspec.Raw(b'[{"fieldsV1":' + b'{"f:x":' * levels + b"{}" + b"}" * levels + b"}]")
        sent = {"metadata": {"name": "p", "managedFields": fields}, "spec": {"schedulerName": "default-scheduler"}}
        found = resource.frame_decoder.decode(msgspec.json.encode({"type": "ADDED", "object": sent})).object
        assert json.loads(found.whole_json) == {"metadata": {"name": "p"}, "spec": sent["spec"]}


@pytest.mark.parametrize("sent", [b'{"metadata":null}', b'{"metadata":{"\xff":1}}', b'{"\xff":1}'])
def test_an_object_whose_json_cannot_be_kept_is_an_error(sent: bytes) -> None:
    with pytest.raises(DecodeError):
        NODES_WITH_JSON.frame_decoder.decode(b'{"type":"ADDED","object":%b}' % sent)
