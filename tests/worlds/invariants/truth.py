"""The cluster as the API server has it now, and what the product's own engine says of a pod in it."""

from collections.abc import Collection, Iterator, Mapping
from random import Random

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.sources.stores import NOT_ENDED, stores
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.placements import Placement
from extender_service.config.loading import default_config
from extender_service.config.rules import Rules
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Handle
from extender_service.framework.profiles import Profiles
from extender_service.framework.registry.registry import Registry
from extender_service.framework.runtime import run_pre_enqueue
from extender_service.kube.resources import api_resources
from extender_service.kube.types.core import Object
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question
from tests.worlds.api_server.etcd import Change, Etcd, Item
from tests.worlds.api_server.kinds import BY_PATH, PODS, Kind
from tests.worlds.settings.program_settings import BATCH_SCHEDULER

_ENDED = ("Succeeded", "Failed")


def cluster_of(etcd: Etcd, reads: Collection[type[Object]], rules: Rules) -> Cluster:
    """Return a cluster made from scratch of what is stored now: nodes, pods that have not ended, and what is read."""
    cluster = Cluster(rules)
    for resource, store, selector in stores(cluster, set(reads)):
        for item in etcd.all(BY_PATH[resource.group, resource.version, resource.plural]):
            if selector != NOT_ENDED or item.value["status"].get("phase") not in _ENDED:
                store.apply(resource.decoder.decode(item.body))
    return cluster


def pending_pods(etcd: Etcd, scheduler_names: Collection[str]) -> Iterator[Item]:
    """Yield the pods that these schedulers are to place: on no node, neither ended nor being deleted."""
    for item in etcd.all(PODS):
        spec, metadata = item.value["spec"], item.value["metadata"]
        is_over = item.value["status"].get("phase") in _ENDED or "deletionTimestamp" in metadata
        if not spec.get("nodeName") and not is_over and spec.get("schedulerName") in scheduler_names:
            yield item


def _config_of_all_profiles(rules: Rules) -> KubeSchedulerConfiguration:
    """Return the default profile under all names: the second one of worlds differs only in scores and PostFilter."""
    config = default_config(ARGS_TYPES, rules)
    batch = config.profiles[0].model_copy(update={"scheduler_name": BATCH_SCHEDULER})
    return config.model_copy(update={"profiles": [*config.profiles, batch]})


class Judge:
    """The engine with the default profile, over what is stored: it decides about a pod without any history.

    `cluster` is what was stored when this was made, or at the last `refresh`.
    """

    def __init__(self, etcd: Etcd, rules: Rules) -> None:
        registry, config = Registry(IN_TREE, rules=rules), _config_of_all_profiles(rules)
        self._etcd = etcd
        reads = registry.reads(config)
        self.cluster = cluster_of(etcd, reads, rules)
        self._stores = {
            BY_PATH[resource.group, resource.version, resource.plural]: (resource, store)
            for resource, store, _ in stores(self.cluster, set(reads))
        }
        self._changed: dict[tuple[Kind, str], None] = {}
        handle = Handle(self.cluster, ClusterFile(self.cluster, []), random=Random(0))
        self._profiles = Profiles(registry.profiles(config, handle))
        self.engine = Engine(self.cluster, self._profiles, ClusterFile(self.cluster, []))

    def follow(self) -> None:
        """Take note of what is stored from now on, for `refresh`."""
        self._etcd.listeners.append(self._note)
        self._etcd.on_restore.append(self._note_all)

    def refresh(self) -> None:
        """Bring the cluster up to date."""
        for kind, key in self._changed:
            resource, store = self._stores[kind]
            item = self._etcd.get(kind, key)
            if item is None or (kind is PODS and item.value["status"].get("phase") in _ENDED):
                namespace, _, name = key.rpartition("/")
                store.remove((namespace, name))
            else:
                store.apply(resource.decoder.decode(item.body))
        self._changed.clear()

    def place(self, placements: Mapping[str, Placement]) -> None:
        """Count these pods on their nodes ahead of what is stored, by UID, and no others."""
        cluster = self.cluster
        for placed in [*cluster.placements]:
            wanted = placements.get(placed.uid)
            if wanted is None or wanted.node_name != placed.node_name:
                cluster.drop_placement(placed.uid)
        for uid, wanted in placements.items():
            stored = cluster.pod(uid)
            if cluster.placements.get(uid) is None and (stored is None or not stored.node_name):
                cluster.placements.place(wanted.pod, uid, wanted.node_name)

    def _note(self, kind: Kind, change: Change) -> None:
        if kind in self._stores:
            self._changed[kind, change.item.key] = None

    def _note_all(self) -> None:
        for kind, (_, store) in self._stores.items():
            for namespace, name in [*store.keys()]:
                self._changed[kind, f"{namespace}/{name}" if namespace else name] = None
            for item in self._etcd.all(kind):
                self._changed[kind, item.key] = None

    def feasible(self, item: Item) -> list[str]:
        """Return the names of the nodes on which a pod fits; none if it is gated, of a scheduler not known here, or has
        a field that is refused."""
        pod = api_resources.PODS.decoder.decode(item.body)
        profile = self._profiles.find(pod.spec.scheduler_name)
        if profile is None or run_pre_enqueue(profile, pod) is not None:
            return []
        question = Question(pod, self.engine.nodes.all(), must_score=False, refuses_unsupported=True)
        if self.engine.unsupported.refusal(question) is not None:
            return []
        try:
            decision = self.engine.decide_without_reuse(question) if self.cluster.node_count else None
        except CycleError:
            return []
        return [] if decision is None else list(question.nodes.view.names_at(decision.feasible))
