"""Whatever comes and goes, nothing of it is kept: looked for in all that the service refers to."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from extender_service.cluster.owners.owners import WORKLOADS
from extender_service.cluster.sources.stores import NodeStore, PodStore, StorageStore, WorkloadStore
from extender_service.cluster.structures.change_log import MOST_CHANGES
from extender_service.cluster.volumes.storage_table import STORAGE
from extender_service.extender.expectations import SPARE_DEADLINES
from extender_service.kube.resources.api_resources import NODES, PODS, Resource
from extender_service.kube.types.keys import key_of
from extender_service.kube.watching.store import Store
from tests.soak.churn import Churn, Event
from tests.soak.containers import ARRAY, container_sizes
from tests.support.clusters.extender_world import ExtenderWorld

_STEPS = 2000
_CALL_EVERY = 5

# The last of what decisions have asked for.
_CACHES = {
    "._columns": 256,
    "._index": 256,
    ".pod_counts": 512,
    "._sums": 128,
    ".by_facts": 128,
    ".by_room": 128,
    "._memo": 64,
    "._answers": 64,
    "._selections": 256,
    "._about": 64,
    "._found": 256,
}
# That, and the last of what has happened.
_LIMITS = {
    **_CACHES,
    "._recent.entries": 4,
    "._changes": 2 * MOST_CHANGES,
    "._deadlines": SPARE_DEADLINES,
    "._selections.entries": 4,
    # Of a node that came again with the same labels, the table keeps those of before: 20 nodes with 12 labels each.
    ".objects[].metadata.labels": 20 * 12,
    # Of 100 pods that were given 6 other labels each.
    "._sets.values[].labels": 100 * 6,
    # Rows to catch up with: of 20 nodes, and of those that came and went.
    "._changed.rows": 2 * 20,
    "._changed.states": 2 * 20,
}
# What is in these follows from nothing but which few they are; tests/unit/test_caches.py bounds their bytes.
_LAST_FEW = (*(f"{cache}[]" for cache in _CACHES), "._recent.entries[]", "._changes[]", "._deadlines[]")
# The last pod that was placed, the one before, and what was decided about the next.
_LAST_PODS = ("._last_placed", "ahead._before[]", "ahead._known_kind[]", "ahead._ahead[]")
# Room for what comes next is as much as was needed at one time, and arrays have an entry for what there is room for.
_ROOM = ("._free", "._of_rows", "._holders", ".values", ".facts", ".objects", "._labels", ARRAY)
# It may be needed at another time by a few more.
_MORE = 1.5


class Follower:
    """A service that follows a cluster which churns, and is asked about the pods that wait for a node."""

    def __init__(self, churn: Churn) -> None:
        self.churn = churn
        self.world = ExtenderWorld(mode="replace")
        cluster = self.world.cluster
        self._stores: dict[type, Store[Any]] = {NODES.type: NodeStore(cluster), PODS.type: PodStore(cluster)}
        self._stores |= {kind: WorkloadStore(cluster, kind) for kind in WORKLOADS}
        self._stores |= {kind: StorageStore(cluster, kind) for kind in STORAGE}
        for resource in (NODES, PODS):
            for manifest in churn.of(resource).values():
                self.see(Event("ADDED", resource, manifest))

    def see(self, event: Event) -> None:
        obj = _decoded(event.resource, event.manifest)
        store = self._stores[event.resource.type]
        if event.type == "DELETED":
            store.remove(key_of(obj))
        else:
            store.apply(obj)

    async def place_next(self) -> bool:
        """Have a node chosen for the pod that has waited longest, and bind it; returns whether there was a node."""
        key = self.churn.pending.popleft()
        manifest = self.churn.of(PODS)[key]
        answer = await self.world.filter(_decoded(PODS, manifest), self.churn.node_names)
        assert answer["Error"] == ""
        if answer["NodeNames"] and self.churn.is_bindable(key):
            bound = self.churn.bind(key, answer["NodeNames"][0])
            assert bound is not None
            self.see(bound)
        return bool(answer["NodeNames"])

    def sizes(self) -> Counter[str]:
        return container_sizes("extender", (self.world.extender,))


def _decoded(resource: Resource[Any], manifest: dict[str, Any]) -> Any:
    return resource.decoder.decode(msgspec.json.encode(manifest))


async def _live(follower: Follower) -> Counter[str]:
    """Let much come and go, and then all of it go."""
    placed: Counter[bool] = Counter()
    for step in range(_STEPS):
        follower.see(follower.churn.step())
        if step % _CALL_EVERY == 0 and follower.churn.pending:
            placed[await follower.place_next()] += 1
            follower.world.cluster.catch_up()
    assert placed[True] > _STEPS / 20 > placed[False]
    for event in follower.churn.clear():
        follower.see(event)
    follower.world.extender.expectations.expire()
    return follower.sizes()


def _most(path: str, before: int, first: int) -> float:
    """How much a container may hold after a second time, by what it held before the first and after it."""
    for end, limit in _LIMITS.items():
        if path.endswith(end):
            return limit
    asked_for = any(f"{few}[]" in path for few in _LIMITS)
    return _MORE * first if asked_for or path.endswith(_ROOM) else before


def _grown(before: Counter[str], first: Counter[str], second: Counter[str]) -> Iterator[str]:
    for path in sorted(before | first | second):
        most = _most(path, before[path], first[path])
        if second[path] > most and not any(few in path for few in (*_LAST_FEW, *_LAST_PODS)):
            yield f"{path}: {before[path]}, then {first[path]}, then {second[path]}; at most {most:g}"


def test_nothing_is_kept_of_what_has_come_and_gone() -> None:
    async def live_twice() -> tuple[Counter[str], Counter[str], Counter[str]]:
        follower = Follower(Churn(20, 100))
        return follower.sizes(), await _live(follower), await _live(follower)

    sizes = asyncio.run(live_twice())
    assert len(sizes[0]) > 100
    assert list(_grown(*sizes)) == []


def test_a_leak_is_found_wherever_it_is() -> None:
    follower = Follower(Churn(2, 4))
    before = follower.sizes()
    follower.world.cluster.nominations._by_uid["somebody"] = follower.world.cluster.nominations  # type: ignore[assignment]
    [found] = _grown(before, before, follower.sizes())
    assert "nominations._by_uid: 0, then 0, then 1" in found
