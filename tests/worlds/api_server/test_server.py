"""The model as a whole: what differs between worlds, and that nothing but its inputs decides."""

import json
from random import Random
from typing import Any

import pytest

from extender_service.kube.resources.api_resources import PODS as PODS_RESOURCE
from tests.worlds.api_server.fairness import Fairness
from tests.worlds.api_server.kinds import EVENTS
from tests.worlds.api_server.messages import Answer, Delayed, NotModelledError, Request, Response
from tests.worlds.api_server.server import ApiServer
from tests.worlds.api_server.webhooks import Verdict, Webhook

Object = dict[str, Any]
STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def post(path: str, body: Object) -> Request:
    return Request("POST", path, {}, {"content-type": "application/json"}, json.dumps(body).encode())


def pod(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "i"}]}}


def whole(answer: Answer) -> Response:
    assert isinstance(answer, Response)
    return answer


def resized(server: ApiServer, container: Object, content_type: str = STRATEGIC) -> Response:
    """Return the answer to a resize of the pod a, with its container c or another one."""
    body = json.dumps({"spec": {"containers": [{"name": "c", **container}]}}).encode()
    return whole(server.handle(Request("PATCH", f"{PODS}/a/resize", {}, {"content-type": content_type}, body)))


def waited(clock: Clock, answer: Answer) -> tuple[float, Response]:
    """Return for how long an answer was waited for, and the answer."""
    if not isinstance(answer, Delayed):
        return 0.0, whole(answer)
    clock.now += answer.seconds
    return answer.seconds, whole(answer.proceed())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> ApiServer:
    return ApiServer(clock, Random(1))


def test_one_seed_gives_one_history() -> None:
    def history(seed: int) -> list[bytes]:
        server = ApiServer(Clock(), Random(seed))
        return [whole(server.handle(request)).body for request in (post(PODS, pod("a")), Request("GET", PODS))]

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_the_products_types_read_what_the_model_answers(server: ApiServer) -> None:
    server.handle(post(PODS, pod("a")))
    page = PODS_RESOURCE.list_decoder.decode(whole(server.handle(Request("GET", PODS))).body)
    assert [item.metadata.name for item in page.items] == ["a"]
    assert page.metadata.resource_version == str(server.etcd.revision)


@pytest.mark.parametrize("path", [PODS, "/api/v1/pods"])
@pytest.mark.parametrize(("name", "found"), [("b", ["b"]), ("d", []), ("", [])])
def test_a_list_by_name_has_the_object_of_this_name(server: ApiServer, path: str, name: str, found: list[str]) -> None:
    for each in ("a", "b", "bb"):
        server.handle(post(PODS, pod(each)))
    listed = whole(server.handle(Request("GET", path, {"fieldSelector": f"metadata.name={name}"}))).json()
    assert [item["metadata"]["name"] for item in listed["items"]] == found


def test_a_page_of_one_object_by_its_name_is_the_last(server: ApiServer) -> None:
    for name in "ab":
        server.handle(post(PODS, pod(name)))
    page = whole(server.handle(Request("GET", PODS, {"fieldSelector": "metadata.name=a", "limit": "1"}))).json()
    assert [item["metadata"]["name"] for item in page["items"]] == ["a"]
    assert "continue" not in page["metadata"]


@pytest.mark.parametrize(
    ("minor", "query", "seconds", "status"),
    [
        (33, {"resourceVersionMatch": "Exact"}, 0.0, 500),
        (33, {"limit": "5"}, 0.0, 500),
        (33, {"limit": "5", "fieldSelector": "metadata.name=a"}, 0.0, 504),
        (33, {"limit": "5", "resourceVersionMatch": "NotOlderThan"}, 3.0, 504),
        (34, {"resourceVersionMatch": "Exact"}, 3.0, 504),
        (34, {"resourceVersionMatch": "Exact", "fieldSelector": "metadata.name=a"}, 0.0, 504),
        (34, {"limit": "5"}, 3.0, 504),
        (34, {"limit": "5", "fieldSelector": "spec.wrong=1"}, 0.0, 400),
    ],
)
def test_etcd_refuses_a_version_that_is_to_come_at_once_and_the_watch_cache_waits_for_it(
    clock: Clock, minor: int, query: dict[str, str], seconds: float, status: int
) -> None:
    server = ApiServer(clock, Random(1), minor=minor)
    found = waited(clock, server.handle(Request("GET", PODS, {"resourceVersion": "999999999", **query})))
    assert found[0] == pytest.approx(seconds)
    assert found[1].status == status
    if status == 504:
        assert found[1].json()["details"].get("retryAfterSeconds") == (1 if seconds else None)


@pytest.mark.parametrize(("minor", "seconds", "status"), [(33, 0.0, 500), (34, 3.0, 504)])
def test_a_continue_token_from_before_a_restore_is_refused(
    clock: Clock, minor: int, seconds: float, status: int
) -> None:
    server = ApiServer(clock, Random(1), minor=minor)
    backup = server.etcd.save()
    for name in "ab":
        server.handle(post(PODS, pod(name)))
    token = whole(server.handle(Request("GET", PODS, {"limit": "1"}))).json()["metadata"]["continue"]
    server.etcd.restore(backup)
    found = waited(clock, server.handle(Request("GET", PODS, {"limit": "1", "continue": token})))
    assert found[0] == pytest.approx(seconds)
    assert found[1].status == status


def test_a_continue_token_expires_and_another_one_goes_on(clock: Clock, server: ApiServer) -> None:
    for name in "abc":
        server.handle(post(PODS, pod(name)))
    first = whole(server.handle(Request("GET", PODS, {"limit": "1"}))).json()
    for _ in range(3):
        server.handle(post(PODS, pod(f"later-{clock.now:.0f}")))
        clock.now += 300.0
        server.step()
    expired = whole(server.handle(Request("GET", PODS, {"limit": "1", "continue": first["metadata"]["continue"]})))
    assert expired.status == 410
    assert expired.json()["reason"] == "Expired"
    token = expired.json()["metadata"]["continue"]
    rest = whole(server.handle(Request("GET", PODS, {"continue": token}))).json()
    assert [item["metadata"]["name"] for item in rest["items"]][:2] == ["b", "c"]


def test_a_list_at_a_compacted_version_has_expired(server: ApiServer) -> None:
    version = str(server.etcd.revision)
    server.handle(post(PODS, pod("a")))
    server.etcd.compact(server.etcd.revision)
    answer = whole(server.handle(Request("GET", PODS, {"resourceVersion": version, "resourceVersionMatch": "Exact"})))
    assert (answer.status, answer.json()["reason"]) == (410, "Expired")


def test_a_full_queue_refuses_with_retry_after(server: ApiServer) -> None:
    server.fairness = Fairness(seats=1, seat_seconds=0.5, queue_length=1)
    assert whole(server.handle(Request("GET", PODS))).status == 200
    waiting = server.handle(Request("GET", PODS))
    assert isinstance(waiting, Delayed)
    assert waiting.seconds == pytest.approx(0.5)
    refused = whole(server.handle(Request("GET", PODS)))
    assert refused.status == 429
    assert refused.headers["retry-after"] == "1"
    assert whole(waiting.proceed()).status == 200


def test_a_seat_becomes_free(clock: Clock, server: ApiServer) -> None:
    server.fairness = Fairness(seats=1, seat_seconds=0.5, queue_length=0)
    assert whole(server.handle(Request("GET", PODS))).status == 200
    assert whole(server.handle(Request("GET", PODS))).status == 429
    clock.now += 0.5
    assert whole(server.handle(Request("GET", PODS))).status == 200


def test_a_slow_webhook_delays_a_write_and_no_read(server: ApiServer) -> None:
    server.webhooks = [Webhook("slow.example.com", lambda _: Verdict(seconds=2.0))]
    answer = server.handle(post(PODS, pod("a")))
    assert isinstance(answer, Delayed)
    assert answer.seconds == 2.0
    assert whole(server.handle(Request("GET", PODS))).json()["items"] == []
    assert whole(answer.proceed()).status == 201


def test_a_webhook_refuses(server: ApiServer) -> None:
    server.webhooks = [Webhook("strict.example.com", lambda _: Verdict(refusal="not today"))]
    answer = whole(server.handle(post(PODS, pod("a"))))
    assert answer.status == 403
    assert answer.json()["message"] == 'admission webhook "strict.example.com" denied the request: not today'


def test_a_webhook_that_hangs_fails_the_write(server: ApiServer) -> None:
    server.webhooks = [Webhook("hung.example.com", lambda _: Verdict(seconds=60.0))]
    answer = server.handle(post(PODS, pod("a")))
    assert isinstance(answer, Delayed)
    assert answer.seconds == 10.0
    found = whole(answer.proceed())
    assert (found.status, found.json()["reason"]) == (500, "InternalError")


def test_an_event_goes_an_hour_after_its_last_write(clock: Clock, server: ApiServer) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    server.handle(post(path, {"metadata": {"name": "e"}, "reason": "Scheduled"}))
    clock.now += 3000.0
    patch = Request("PATCH", f"{path}/e", {}, {"content-type": "application/merge-patch+json"}, b'{"reason":"Other"}')
    assert whole(server.handle(patch)).status == 200
    clock.now += 3599.0
    server.step()
    assert [*server.etcd.all(EVENTS)]
    clock.now += 1.0
    server.step()
    assert not [*server.etcd.all(EVENTS)]


def test_reviews_are_answered_as_the_world_says(server: ApiServer) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "binding"}}}
    assert whole(server.handle(post(path, review))).json()["status"]["allowed"] is True
    server.allows = lambda attributes: attributes.get("subresource") != "binding"
    assert whole(server.handle(post(path, review))).json()["status"]["allowed"] is False


def test_tokens_belong_to_the_users_of_the_world(server: ApiServer) -> None:
    server.users = {"secret": {"username": "prometheus", "groups": ["monitoring"]}}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    found = whole(server.handle(post(path, {"spec": {"token": "secret"}}))).json()["status"]
    assert (found["authenticated"], found["user"]["username"]) == (True, "prometheus")
    unknown = whole(server.handle(post(path, {"spec": {"token": "other"}}))).json()["status"]
    assert not unknown.get("authenticated")


def test_it_says_its_release_and_what_it_serves(server: ApiServer) -> None:
    assert whole(server.handle(Request("GET", "/version"))).json()["minor"] == "31"
    found = whole(server.handle(Request("GET", "/api/v1"))).json()["resources"]
    assert {"pods", "pods/status", "pods/binding", "pods/eviction", "nodes"} <= {entry["name"] for entry in found}
    groups = whole(server.handle(Request("GET", "/apis"))).json()["groups"]
    assert "policy" in {group["name"] for group in groups}


def test_what_the_model_lacks_is_an_error_of_the_test(server: ApiServer) -> None:
    server.handle(post(PODS, pod("a")))
    patch = Request("PATCH", f"{PODS}/a", {}, {"content-type": "application/json-patch+json"}, b"[]")
    with pytest.raises(NotModelledError, match="json-patch"):
        server.handle(patch)


def test_tolerations_that_admission_puts_back_change_no_pod(clock: Clock) -> None:
    server = ApiServer(clock, Random(1), minor=37)
    server.handle(post(PODS, pod("a")))
    body = b'{"spec":{"tolerations":[{"key":"b","operator":"Exists"}]}}'
    patch = Request("PATCH", f"{PODS}/a", {}, {"content-type": "application/merge-patch+json"}, body)
    first = whole(server.handle(patch)).json()
    assert [entry["key"] for entry in first["spec"]["tolerations"]][:1] == ["b"]
    assert whole(server.handle(patch)).json() == first


@pytest.mark.parametrize("minor", [32, 33, 34])
def test_pods_are_resized_through_a_subresource_from_1_33_on(clock: Clock, minor: int) -> None:
    server = ApiServer(clock, Random(1), minor=minor)
    path = "/api/v1/namespaces/default/pods"
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}
    server.handle(post(path, {"metadata": {"name": "a"}, "spec": {"containers": [container]}}))

    def resize(**requests: str | None) -> Response:
        spec = {"containers": [{"name": "c", "image": "other:1", "resources": {"requests": requests}}]}
        body = json.dumps({"metadata": {"labels": {"a": "b"}}, "spec": spec}).encode()
        headers = {"content-type": "application/strategic-merge-patch+json"}
        return whole(server.handle(Request("PATCH", f"{path}/a/resize", {}, headers, body)))

    answer = resize(cpu="50m")
    if minor < 33:
        assert answer.status == 404
        return
    assert answer.status == 200
    found = answer.json()
    assert found["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "50m", "memory": "1Gi"}
    assert found["spec"]["containers"][0]["image"] == "i:1"
    assert "labels" not in found["metadata"]
    assert found["metadata"].get("generation") == (2 if minor >= 34 else None)
    assert resize(cpu=None).status == 422
    assert resize(**{"example.com/gpu": "1"}).status == 422
    assert whole(server.handle(Request("GET", f"{path}/a/resize"))).json() == found


@pytest.mark.parametrize(
    ("content_type", "container", "field"),
    [
        (STRATEGIC, {"resources": {"requests": {"memory": "4Gi"}}}, "spec.containers[0].resources.requests"),
        (STRATEGIC, {"resources": {"limits": {"memory": None}}}, "spec.containers[0].resources.limits"),
        (STRATEGIC, {"resources": {"requests": {"ephemeral-storage": "1Gi"}}}, "spec"),
        (STRATEGIC, {"resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}}, "spec"),
        (STRATEGIC, {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}, "spec"),
        (STRATEGIC, {"name": "d", "image": "i"}, "spec.containers"),
        (MERGE, {"name": "d", "image": "i"}, "spec.containers[0].name"),
    ],
)
def test_a_resize_changes_no_more_than_how_much_cpu_and_memory_containers_have(
    clock: Clock, content_type: str, container: Object, field: str
) -> None:
    server = ApiServer(clock, Random(1), minor=37)
    resources = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    present = {"name": "c", "image": "i", "resources": resources}
    server.handle(post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [present]}}))
    if content_type == MERGE:
        container = {**present, **container}
    answer = resized(server, container, content_type)
    assert answer.status == 422
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == [field]


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [("deletionTimestamp", "2023-11-14T22:13:20Z", 200), ("deletionGracePeriodSeconds", 30, 422)],
)
def test_a_resize_drops_when_a_pod_is_to_go_and_may_not_set_how_long_that_takes(
    clock: Clock, field: str, value: object, status: int
) -> None:
    server = ApiServer(clock, Random(1), minor=37)
    server.handle(post(PODS, pod("a")))
    body = json.dumps({"metadata": {field: value}}).encode()
    answer = whole(server.handle(Request("PATCH", f"{PODS}/a/resize", {}, {"content-type": MERGE}, body)))
    assert answer.status == status
    causes = answer.json().get("details", {}).get("causes", [])
    assert [cause["field"] for cause in causes] == ([f"metadata.{field}"] if status == 422 else [])
    assert field not in whole(server.handle(Request("GET", f"{PODS}/a"))).json()["metadata"]


@pytest.mark.parametrize("minor", [35, 36])
def test_a_bound_pod_is_resized_within_its_node_from_1_36_on(clock: Clock, minor: int) -> None:
    server = ApiServer(clock, Random(1), minor=minor)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    server.handle(post(PODS, {"metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": [container]}}))

    def answer(cpu: str) -> tuple[int, str]:
        found = resized(server, {"resources": {"requests": {"cpu": cpu}}})
        return found.status, found.json().get("message", "")

    lost = answer("200m")
    server.handle(post("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}}))
    small = answer("2")
    assert answer("1") == (200, "")
    if minor < 36:
        assert (lost, small) == ((200, ""), (200, ""))
        return
    assert lost == (403, 'pods "a" is forbidden: node "n" not found')
    text = "node didn't have enough allocatable resources: cpu, requested: 2000, allocatable: 1000"
    assert small == (403, f'pods "a" is forbidden: {text}')
