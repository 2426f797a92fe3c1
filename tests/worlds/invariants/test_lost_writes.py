"""A pod may wait in PreBind for a write that etcd has lost, and for nothing else."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import TypeVar, cast

import pytest
from msgspec import structs

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.framework.handle import Handle
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from extender_service.plugins.volume_binding.volume_binder import BoundVolumes, VolumePlan
from extender_service.scheduling.binder import Binder
from tests.support.clusters.volume_worlds import storage_cluster
from tests.support.objects import make_node, make_pod
from tests.support.storage_objects import make_claim, make_volume
from tests.worlds.api_server.etcd import Etcd, Item
from tests.worlds.api_server.kinds import CLAIMS, PODS, VOLUMES, Kind
from tests.worlds.invariants.lost_writes import _waiting, assumed_for_lost_writes
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)

CLAIM, VOLUME, POD = make_claim("c"), make_volume("v"), make_pod("p")
MADE, BOUND = VolumePlan([], [CLAIM]), VolumePlan([(VOLUME, CLAIM)], [])


class Api(ClusterFile):
    """Writes to etcd; the watch shows nothing of it."""

    etcd: Etcd

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        return written(volume, put(self.etcd, VOLUMES, "v"))

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return written(claim, put(self.etcd, CLAIMS, "default/c"))


def put(etcd: Etcd, kind: Kind, key: str, node_name: str = "") -> Item:
    return etcd.put(kind, key, {"metadata": {"uid": f"uid-of-{key[-1]}"}, "spec": {"nodeName": node_name}})


def written(item: T, stored: Item) -> T:
    return structs.replace(item, metadata=structs.replace(item.metadata, resource_version=str(stored.revision)))


class BeingBound:
    """A pod in PreBind, for which a claim or a volume was written a second ago."""

    def __init__(self, plan: VolumePlan) -> None:
        self.etcd = Etcd(lambda: 0.0)
        for kind, key in ((PODS, "default/p"), (CLAIMS, "default/c"), (VOLUMES, "v")):
            put(self.etcd, kind, key)
        self.backup = self.etcd.save()
        cluster = storage_cluster([make_node("a")], [CLAIM, VOLUME])
        api = Api(cluster, [])
        api.etcd = self.etcd
        self.binder = Binder(cluster, api)
        volumes = BoundVolumes(Handle(cluster, api), POD, "a")
        volumes.assume(plan)

        async def program(_: object) -> None:
            self.binder.start("uid-of-p", "a", volumes.bind(1000.0))
            await asyncio.Event().wait()

        self.world = World(1)
        Process(self.world, "replica-0", program).start()
        self.world.run(1.0)

    def restore(self) -> None:
        self.etcd.restore(self.backup, bump_revision=1000)

    @property
    def is_excused(self) -> bool:
        return [uid for uid, _ in _waiting(self.binder, self.etcd)] == ["uid-of-p"]


@pytest.mark.parametrize("plan", [MADE, BOUND])
def test_a_write_that_a_restore_took_back(plan: VolumePlan) -> None:
    bound = BeingBound(plan)
    assert not bound.is_excused
    bound.restore()
    assert bound.is_excused


def test_not_for_longer_than_kube_scheduler_waits() -> None:
    bound = BeingBound(MADE)
    bound.restore()
    bound.world.run(599.0)
    assert bound.is_excused
    bound.world.run(601.0)
    assert not bound.is_excused


@pytest.mark.parametrize(
    "then",
    [
        lambda etcd: put(etcd, CLAIMS, "default/c"),  # the watch shows it, and the scheduler gives up
        lambda etcd: etcd.delete(CLAIMS, "default/c"),
        lambda etcd: etcd.delete(PODS, "default/p"),
        lambda etcd: put(etcd, PODS, "default/p", "b"),
    ],
)
def test_what_happens_then_ends_the_wait(then: Callable[[Etcd], object]) -> None:
    bound = BeingBound(MADE)
    bound.restore()
    then(bound.etcd)
    assert not bound.is_excused


@pytest.mark.parametrize(
    ("plan", "assumed"), [(MADE, (PersistentVolumeClaim, ("default", "c"))), (BOUND, (PersistentVolume, ("", "v")))]
)
def test_what_was_written_stays_assumed(plan: VolumePlan, assumed: object, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = BeingBound(plan)
    insides = SimpleNamespace(engine=SimpleNamespace(binder=bound.binder))
    monkeypatch.setattr("tests.worlds.invariants.lost_writes.scheduler_insides", lambda _: insides)
    observed, process = cast(Observed, SimpleNamespace(model=SimpleNamespace(etcd=bound.etcd))), cast(Process, None)
    assert assumed_for_lost_writes(observed, process) == set()
    bound.restore()
    assert assumed_for_lost_writes(observed, process) == {assumed}
