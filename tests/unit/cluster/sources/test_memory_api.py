import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from extender_service.cluster.sources.memory_api import MemoryApi
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.api_errors import ApiError
from extender_service.kube.types.core import Pod
from extender_service.testing import make_node, make_pod


@pytest.fixture
def api() -> MemoryApi:
    api = MemoryApi(Cluster())
    api.put(make_node("a", {"cpu": "4", "pods": 10}))
    api.put(make_pod("web"))
    return api


def patch(api: MemoryApi, status: Mapping[str, Any], uid: str = "default/web") -> Pod:
    asyncio.run(api.patch_pod_status("default", "web", {"metadata": {"uid": uid}, "status": status}))
    [pod] = api.pods
    return pod


def condition(message: str, status: str = "False") -> dict[str, Any]:
    return {"type": "PodScheduled", "status": status, "message": message, "lastProbeTime": None}


def test_conditions_are_merged_by_their_type(api: MemoryApi) -> None:
    patch(api, {"conditions": [{"type": "Other", "status": "True"}, condition("first")]})
    pod = patch(api, {"conditions": [condition("second")]})
    assert [(found.type, getattr(found, "message", "")) for found in pod.status.conditions] == [
        ("Other", ""),
        ("PodScheduled", "second"),
    ]


def test_the_nominated_node_is_set_kept_and_cleared(api: MemoryApi) -> None:
    assert patch(api, {"nominatedNodeName": "a"}).status.nominated_node_name == "a"
    assert patch(api, {"conditions": [condition("waits")]}).status.nominated_node_name == "a"
    assert patch(api, {"nominatedNodeName": None}).status.nominated_node_name == ""


def test_each_write_is_a_new_version(api: MemoryApi) -> None:
    versions = [patch(api, {"conditions": [condition("waits")]}).metadata.resource_version for _ in range(3)]
    assert len(set(versions)) == 3


def test_a_write_of_the_status_returns_the_version(api: MemoryApi) -> None:
    nominated = {"metadata": {"uid": "default/web"}, "status": {"nominatedNodeName": "a"}}
    version = asyncio.run(api.patch_pod_status("default", "web", nominated))
    [pod] = api.pods
    assert pod.metadata.resource_version == version


def test_a_deleted_pod_is_gone_at_once(api: MemoryApi) -> None:
    asyncio.run(api.bind_pod("default", "web", "", "a"))
    assert api._cluster.pod_count == 1
    asyncio.run(api.delete_pod("default", "web", "default/web"))
    assert (api.pods, api._cluster.pod_count) == ([], 0)


@pytest.mark.parametrize(
    "write",
    [
        lambda api, name, uid: api.patch_pod_status("default", name, {"metadata": {"uid": uid}, "status": {}}),
        lambda api, name, uid: api.delete_pod("default", name, uid),
        lambda api, name, uid: api.bind_pod("default", name, uid, "a"),
    ],
)
def test_writes_about_another_pod_are_refused(api: MemoryApi, write: Callable[[MemoryApi, str, str], Any]) -> None:
    for name, uid, status in (("other", "", 404), ("web", "another", 409)):
        with pytest.raises(ApiError) as raised:
            asyncio.run(write(api, name, uid))
        assert raised.value.status_code == status


def test_a_pod_that_has_ended_counts_nowhere(api: MemoryApi) -> None:
    asyncio.run(api.bind_pod("default", "web", "", "a"))
    [pod] = api.pods
    ended = Pod(pod.metadata, pod.spec, type(pod.status)(phase="Succeeded"))
    api.put(ended)
    assert api._cluster.pod_count == 0
    assert api.pods == [ended]


def test_it_counts_what_may_let_another_pod_fit(api: MemoryApi) -> None:
    before = api.changes
    patch(api, {"conditions": [condition("waits")], "nominatedNodeName": "a"})
    assert api.changes == before
    asyncio.run(api.bind_pod("default", "web", "", "a"))
    asyncio.run(api.delete_pod("default", "web", ""))
    assert api.changes == before + 2
