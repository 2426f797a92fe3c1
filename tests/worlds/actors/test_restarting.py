"""Actors restart when etcd is restored."""

from tests.worlds.actors.client import ActorClient
from tests.worlds.actors.restarting import RestartingActor
from tests.worlds.actors.small_cluster import SmallCluster


def test_after_a_restore_another_client_begins_and_the_one_before_is_stopped() -> None:
    cluster, clients = SmallCluster(), list[ActorClient]()
    etcd = cluster.model.etcd
    actor = RestartingActor(cluster.world, [cluster.server], etcd, "actor", clients.append)
    etcd.restore(etcd.save())
    assert clients == []
    actor.start()
    etcd.restore(etcd.save())
    first, second = clients
    assert (first.is_stopped, second.is_stopped) == (True, False)
    assert first.random.random() != second.random.random()
