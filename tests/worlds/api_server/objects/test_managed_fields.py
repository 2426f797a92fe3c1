"""Which writes of a pod are stored though a client sees no change: its managed fields decide."""

import json
from random import Random
from typing import Any

import pytest

from tests.worlds.api_server.messages import Request, Response
from tests.worlds.api_server.objects.managed_fields import Managed, Manager, differ, updated
from tests.worlds.api_server.server import ApiServer

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = "application/strategic-merge-patch+json"
CONTAINER: Object = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}
LABELS: Object = {"metadata": {"labels": {"app": "x"}}}
IMAGE: Object = {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"}
CLIENT, OTHER = Manager("client", ""), Manager("other", "")


class Pod:
    """A pod on a server of 1.37. Each request comes in another second."""

    def __init__(self, **metadata: Any) -> None:
        self._now = 1_700_000_000.0
        self._server = ApiServer(lambda: self._now, Random(1), minor=37)
        self._send("POST", PODS, {"metadata": {"name": "a", **metadata}, "spec": {"containers": [CONTAINER]}})
        self._send("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})

    def shown(self) -> Object:
        """Return the pod without its version."""
        found: Object = self._send("GET", f"{PODS}/a").json()
        del found["metadata"]["resourceVersion"]
        return found

    def writes(self, body: Object, subresource: str = "", client: str = "client", method: str = "PATCH") -> bool:
        """Send a change, and return whether it was stored."""
        before = self._server.etcd.revision
        path = f"{PODS}/a/{subresource}" if subresource else f"{PODS}/a"
        assert self._send(method, path, body, client).status in (200, 201)
        return self._server.etcd.revision > before

    def _send(self, method: str, path: str, body: Object | None = None, client: str = "client") -> Response:
        self._now += 1.0
        content_type = STRATEGIC if method == "PATCH" else "application/json"
        headers = {"content-type": content_type, "user-agent": f"{client}/1.0"}
        encoded = b"" if body is None else json.dumps(body).encode()
        answer = self._server.handle(Request(method, path, {}, headers, encoded))
        assert isinstance(answer, Response)
        return answer


@pytest.mark.parametrize("dropped", [LABELS, {"metadata": {"finalizers": ["example.com/hold"]}}, IMAGE])
def test_a_resize_with_what_it_drops_is_stored_once(dropped: Object) -> None:
    pod = Pod()
    before = pod.shown()
    assert pod.writes(dropped, "resize")
    assert not pod.writes(dropped, "resize")
    assert pod.shown() == before


def test_a_resize_that_drops_nothing_and_changes_nothing_is_not_stored() -> None:
    pod = Pod(labels={"app": "x"})
    assert not pod.writes({**LABELS, "spec": {"containers": [CONTAINER]}}, "resize")


def test_a_resize_takes_a_label_that_it_leaves_out_from_its_manager_and_from_the_pod_nothing() -> None:
    pod = Pod(labels={"app": "x"})
    without: Object = {"metadata": {"labels": {"app": None}}}
    assert pod.writes(without, "resize")
    assert not pod.writes(without, "resize")
    assert pod.shown()["metadata"]["labels"] == {"app": "x"}


@pytest.mark.parametrize(
    ("subresource", "dropped"),
    [
        ("", {"status": {"phase": "Running"}}),
        ("status", {"spec": {"activeDeadlineSeconds": 5}}),
        ("status", {"metadata": {"ownerReferences": [OWNER]}}),
    ],
)
def test_what_an_endpoint_says_that_it_resets_is_not_stored(subresource: str, dropped: Object) -> None:
    assert not Pod().writes(dropped, subresource)


def test_the_same_resize_of_another_client_is_stored() -> None:
    pod = Pod()
    assert pod.writes(LABELS, "resize", "one")
    assert pod.writes(LABELS, "resize", "two")
    assert not pod.writes(LABELS, "resize", "two")


@pytest.mark.parametrize(
    ("change", "subresource", "method", "is_stored"),
    [
        # Its manager now comes after that of the resize.
        ({"status": {"phase": "Running"}}, "status", "PATCH", True),
        # It takes the label from the resize.
        ({"metadata": {"labels": {"app": "y"}}}, "", "PATCH", True),
        ({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}, "binding", "POST", False),
    ],
)
def test_whether_a_resize_is_stored_again_depends_on_the_managers_that_came_since(
    change: Object, subresource: str, method: str, is_stored: bool
) -> None:
    pod = Pod()
    dropped: Object = {"metadata": {"labels": {"app": "z"}}}
    assert pod.writes(dropped, "resize")
    assert pod.writes(change, subresource, method=method)
    assert pod.writes(dropped, "resize") is is_stored
    assert not pod.writes(dropped, "resize")


def test_a_field_goes_to_the_manager_that_changes_it() -> None:
    before: Object = {"metadata": {"labels": {"a": "1", "b": "1"}}}
    created = updated({}, {}, before, CLIENT, "t1")
    labels = {name: ("metadata", "labels", name) for name in "ab"}
    assert created == {CLIENT: Managed("t1", frozenset({("metadata", "labels"), *labels.values()}))}
    changed = updated(created, before, {"metadata": {"labels": {"a": "1", "b": "2"}}}, OTHER, "t2")
    assert changed == {
        CLIENT: Managed("t1", frozenset({("metadata", "labels"), labels["a"]})),
        OTHER: Managed("t2", frozenset({labels["b"]})),
    }
    assert updated(changed, before, {}, OTHER, "t3") == {}


@pytest.mark.parametrize(
    ("before", "sent", "field"),
    [
        ([{"name": "c", "image": "1"}], [{"name": "c", "image": "2"}], ("c", "image")),
        ([{"name": "c", "image": "1"}], [{"name": "c", "image": "1", "args": ["x"]}], ("c", "args")),
    ],
)
def test_a_container_has_fields_of_its_own(before: Object, sent: Object, field: tuple[str, ...]) -> None:
    managed = {CLIENT: Managed("t1", frozenset({("spec", "dnsPolicy")}))}
    found = updated(managed, {"spec": {"containers": before}}, {"spec": {"containers": sent}}, OTHER, "t2")
    assert found[OTHER].fields == {("spec", "containers", *field)}


@pytest.mark.parametrize("name", ["tolerations", "nodeSelector"])
def test_tolerations_and_a_node_selector_are_one_field(name: str) -> None:
    def spec(key: str) -> Object:
        return {"spec": {name: {"nodeSelector": {key: "1"}, "tolerations": [{"key": key}]}[name]}}

    managed = updated({}, {}, spec("a"), CLIENT, "t1")
    assert managed[CLIENT].fields == {("spec", name)}
    assert updated(managed, spec("a"), spec("b"), OTHER, "t2").keys() == {OTHER}


def test_a_pod_without_managed_fields_gets_none_by_an_update() -> None:
    assert updated({}, {"metadata": {"name": "a"}}, LABELS, CLIENT, "t1") == {}


def test_other_times_differ_only_if_they_change_the_order() -> None:
    fields = frozenset({("spec", "dnsPolicy")})
    first = {CLIENT: Managed("t1", fields), OTHER: Managed("t2", fields)}
    assert not differ(first, {**first, OTHER: Managed("t3", fields)})
    assert differ(first, {**first, CLIENT: Managed("t3", fields)})
    assert differ(first, {OTHER: Managed("t2", fields)})
