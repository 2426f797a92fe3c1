"""Notes on a lease change its version, and not who holds it."""

from typing import Any

from tests.worlds.actors.lease_notes import LEASE, LeaseNotes
from tests.worlds.actors.small_cluster import SmallCluster

SPEC = {"holderIdentity": "replica-0_x", "leaseDurationSeconds": 15}


def lease_at(cluster: SmallCluster, seconds: float) -> dict[str, Any]:
    cluster.run(seconds)
    (lease,) = cluster.all("leases", "coordination.k8s.io")
    return lease


def test_a_lease_is_annotated_again_and_again_until_a_time() -> None:
    cluster = SmallCluster()
    LeaseNotes(cluster.client("lease-notes"), until=100.0).start()
    cluster.run(1.0)  # while there is no lease, nothing happens
    cluster.ask("POST", LEASE.rpartition("/")[0], {"metadata": {"name": "kube-scheduler"}, "spec": SPEC})
    first, last = lease_at(cluster, 49.0), lease_at(cluster, 50.0)
    assert first["metadata"]["annotations"] != last["metadata"]["annotations"]
    assert first["spec"] == last["spec"] == SPEC
    assert lease_at(cluster, 50.0) == last
