"""Clusters and pending pods for benchmarks in process: those of the peers' programs, or without Go, similar ones."""

import asyncio
import gc

from bench import synthetic
from bench.programs import ClusterSize, Peers
from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.memory.huge_pages import use_huge_pages
from extender_service.command.setup import Setup
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.types.core import Pod
from extender_service.kube.types.extender_api import ExtenderArgs


def load(peers: Peers | None, size: ClusterSize) -> Cluster:
    """Return a cluster in the state that the service has when it is ready."""
    if peers is None:
        cluster = synthetic.cluster(size.nodes, size.pods_per_node, images=size.images)
    else:
        with peers.api(size, "json") as api:
            cluster = asyncio.run(_listed(api.url))
    settle()
    return cluster


def settle() -> None:
    """Exclude all present objects from garbage collection, and use huge pages, as programs do after the first sync."""
    gc.collect()
    gc.freeze()
    use_huge_pages()


def pending_pod(peers: Peers | None, pod_class: str) -> Pod:
    """Return a pending pod of one of synthetic.CLASSES."""
    if peers is None:
        return synthetic.pending_pod(pod_class)
    pod = _args.decode(peers.body(pod_class, nodes=1)).pod
    assert pod is not None
    return pod


_args = Decoder(ExtenderArgs)


async def _listed(url: str) -> Cluster:
    cluster = Cluster()
    async with KubeClient(load_credentials(master=url)) as client:
        api_server = ApiServer(cluster, client, Setup(None, []).reads)
        following = asyncio.create_task(api_server.follow())
        await api_server.wait_synced()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return cluster
