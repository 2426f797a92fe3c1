"""All that is in a cluster beside the product: machines, objects of users, controllers, and others who act."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from tests.worlds.actors.autoscaler import Autoscaler
from tests.worlds.actors.client import ActorClient
from tests.worlds.actors.devices import DevicePlugins
from tests.worlds.actors.kubelet import DRIVER, Kubelet
from tests.worlds.actors.lease_notes import LeaseNotes
from tests.worlds.actors.machines import Machines, MachineTroubles
from tests.worlds.actors.people import People
from tests.worlds.actors.plugin_users import PluginUsers
from tests.worlds.actors.resizers import Resizers
from tests.worlds.actors.restarting import RestartingActor
from tests.worlds.actors.second_scheduler import NAME as SECOND_SCHEDULER
from tests.worlds.actors.second_scheduler import SecondScheduler
from tests.worlds.api_server.server import RESIZES_SINCE, ApiServer
from tests.worlds.clusters.draft import POOL, Draft, draw_draft
from tests.worlds.clusters.newer import PATIENT, add_newer, draw_budgets
from tests.worlds.clusters.nodes import GPU, draw_node, draw_pool
from tests.worlds.clusters.pods import PRIORITIES, TEAM, TEAM_LABELS, draw_pod, draw_template
from tests.worlds.clusters.storage import draw_claim, local_volume, storage_classes
from tests.worlds.clusters.users import PODS, Users, Wanted
from tests.worlds.controllers.manager import NAME as CONTROLLER_MANAGER
from tests.worlds.controllers.manager import ControllerManager
from tests.worlds.controllers.provisioner import Provisioner
from tests.worlds.controllers.shared_views import SharedViews
from tests.worlds.parts import Parts
from tests.worlds.settings.program_settings import BATCH_SCHEDULER
from tests.worlds.simulation.served_model import ServedModel
from tests.worlds.simulation.world import World

Object = dict[str, Any]

_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
_PRIORITIES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_VOLUMES: Final = "/api/v1/persistentvolumes"
_CLAIMS: Final = "/api/v1/namespaces/{}/persistentvolumeclaims"
_NAMESPACES: Final = "/api/v1/namespaces"
_WORKLOADS: Final = {
    "set": "/apis/apps/v1/namespaces/default/replicasets",
    "job": "/apis/batch/v1/namespaces/default/jobs",
    "daemon": "/apis/apps/v1/namespaces/default/daemonsets",
}
_DRIVERS: Final = "/apis/storage.k8s.io/v1/csidrivers"
_BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_MOST_DAEMONS: Final = 2
# With bursts, a ReplicaSet has so many times as many pods, and with batches, some Jobs.
_BURST: Final = 4
_BATCH: Final = 5
_BATCHES: Final = 0.3
# So often a pod with a claim has that of an earlier pod instead, with shared-claims.
_SHARED: Final = 0.5
# What fits nowhere, and how long its users wait for it.
_HOPELESS: Final = (
    {"containers": [{"name": "main", "image": "image-0:1", "resources": {"requests": {"cpu": "100"}}}]},
    {"nodeSelector": {"disk": "tape"}},
    {"resourceClaims": [{"name": "device", "resourceClaimName": "device"}]},
)
_HOPES_SECONDS: Final = 15.0
_GATED_SECONDS: Final = 10.0
_MOST_ADDED: Final = 5


class Inhabitants:
    """Drawn by seed, and begun by `start`. What makes trouble is over after `busy_seconds`; controllers go on.

    Each thing draws from a source of its own, so that all others stay as they are where it is left out.
    """

    def __init__(
        self,
        world: World,
        servers: Sequence[ServedModel],
        model: ApiServer,
        parts: Parts,
        nodes: int,
        pods: int,
        busy: float,
        wanted: frozenset[str] = frozenset(),
    ) -> None:
        """`nodes` and `pods` are how many; `busy` is for how many seconds users and troubles come.

        The actors and features in `wanted` are there in any case.
        """
        self.draft = draw_draft(world.random("draft"), wanted)
        self._world = world
        self._servers = servers
        self._model = model
        self._parts = parts
        self._pods = pods
        self._busy = busy
        # The claims of pods so far, by where their namespace has its pods.
        self._claims: defaultdict[str, list[str]] = defaultdict(list)
        self._actors = frozenset(name for name in sorted(self.draft.actors) if parts.has(f"actor-{name}"))
        self._users = Users(self._client("users"))
        taints_first = "node-lifecycle" in self._actors
        self.machines = Machines(world, servers, taints_first=taints_first)
        self._nodes = [
            draw_node(f"node-{number}", self.draft, self._random(f"node-{number}")) for number in range(nodes)
        ]
        if POOL in self.draft.features:
            self._nodes += draw_pool(self.draft, self._random(POOL))
        if "devices" in self.draft.features:
            self.machines.on_start.append(DevicePlugins(world, GPU, busy).attend)
        if "resizes" in self.draft.features and model.minor >= RESIZES_SINCE:
            self.machines.on_start.append(Kubelet.report_resources)
        if "start-times" in self.draft.features:
            self.machines.on_start.append(Kubelet.report_start_times)

    def start(self) -> None:
        """Begin."""
        text = f"{' '.join(sorted(self._actors))}; {' '.join(sorted(self.draft.features))}"
        self._world.trace.write("world", f"has {text}")
        self._create_common()
        for node in self._nodes:
            if self._parts.has(node["metadata"]["name"]):
                self.machines.add(node)
        self._start_actors()
        self._plan_workloads()

    def _client(self, name: str) -> ActorClient:
        return ActorClient(self._world, self._servers, name)

    def _random(self, what: str) -> Random:
        return self._world.random(f"drawing of {what}")

    def _has(self, actor: str) -> bool:
        return actor in self._actors

    def _start_actors(self) -> None:
        self._start_restarting(
            CONTROLLER_MANAGER, lambda client: ControllerManager(client, self._model, self._actors).start()
        )
        if self._has("volumes"):
            slow_until = self._busy if "slow-volumes" in self.draft.features else 0.0
            self._start_restarting("provisioner", partial(_start_provisioner, slow_until=slow_until))
        if self._has("second-scheduler"):
            self._start_restarting(SECOND_SCHEDULER, lambda client: SecondScheduler(client).start())
        if self._has("autoscaler"):
            template = draw_node("template", self.draft, self._random("template"))
            client = self._client("autoscaler")
            Autoscaler(client, self.machines, template, _MOST_ADDED, self._busy).start()
        if self._has("machine-troubles"):
            MachineTroubles(self.machines, self._client("cloud"), self._busy).start()
        if "moods" in self.draft.features:
            PluginUsers(self._client("plugin-users"), self._busy).start()
        if "resizes" in self.draft.features:
            Resizers(self._client("resizers"), self._busy).start()
        if "lease-notes" in self.draft.features:
            LeaseNotes(self._client("lease-notes"), self._busy).start()
        if self._has("people"):
            People(self._client("people"), self._busy).start()

    def _start_restarting(self, name: str, begin: Callable[[ActorClient], None]) -> None:
        """Start an actor, now and after each restore of etcd."""
        RestartingActor(self._world, self._servers, self._model.etcd, name, begin).start()

    # What users create:

    def _create_common(self) -> None:
        """Create what there is from the start."""
        wanted = [(_PRIORITIES, {"metadata": {"name": name}, "value": value}) for name, value in PRIORITIES.items()]
        if "patient" in self.draft.features:
            wanted.append((_PRIORITIES, PATIENT))
        if "budgets" in self.draft.features:
            wanted += [(_BUDGETS, each) for each in draw_budgets(self._random("budgets"))]
        if "namespaces" in self.draft.features:
            wanted.append((_NAMESPACES, {"metadata": {"name": TEAM, "labels": TEAM_LABELS}}))
        if "volumes" in self.draft.actors:
            wanted.append((_DRIVERS, {"metadata": {"name": DRIVER}, "spec": {}}))
            wanted += [(_CLASSES, each) for each in storage_classes()]
            random = self._random("volumes")
            for number in range(random.randint(0, 10)):
                name = random.choice(self._nodes)["metadata"]["name"]
                volume = local_volume(number, name, random)
                if self._parts.has(f"volume-{number}"):
                    wanted.append((_VOLUMES, volume))
        self._users.create_at(0.0, wanted)

    def _plan_workloads(self) -> None:
        """Let pods and their owners come, until there are as many pods as there shall be."""
        kinds: list[str] = ["pod"]
        kinds += [kind for kind, actor in (("set", "replica-sets"), ("job", "jobs")) if actor in self.draft.actors]
        draw: dict[str, Callable[[str, Random], tuple[Wanted, int]]] = {
            "pod": self._pod, "set": self._set, "job": self._job,
        }  # fmt: skip
        counts, left = dict.fromkeys(kinds, 0), self._pods
        choice = self._random("workloads")
        while left > 0:
            kind = choice.choice(kinds)
            name = f"{kind}-{counts[kind]}"
            counts[kind] += 1
            random = self._random(name)
            at = random.uniform(0.0, self._busy)
            wanted, pods = draw[kind](name, random)
            self._add_extras(kind, name, at, wanted)
            add_newer(_pod_spec(kind, name, wanted), self.draft.features, self._random(f"{name} newer"))
            left -= pods
            lifetime = random.expovariate(1 / 120.0)
            if self._parts.has(name, at):
                self._users.create_at(at, wanted)
                if "deletions" in self.draft.features and random.random() < 0.4 and at + lifetime < self._busy:
                    path = next(path for path, value in wanted if value["metadata"]["name"] == name)
                    self._users.delete_at(at + lifetime, f"{path}/{name}")
                elif kind == "pod" and "same-names" in self.draft.features:
                    path, value = next(each for each in wanted if each[1]["metadata"]["name"] == name)
                    self._plan_to_make_again(at, path, value)
        if "daemon-sets" in self.draft.actors:
            self._plan_daemons()

    def _add_extras(self, kind: str, name: str, at: float, wanted: Wanted) -> None:
        """Change what a user is about to create, by the features that no seed has by itself."""
        features, random = self.draft.features, self._random(f"{name} extras")
        path, value = next(each for each in wanted if each[1]["metadata"]["name"] == name)
        spec = _pod_spec(kind, name, wanted)
        draws = [random.random() for _ in range(3)]
        if "profiles" in features and draws[0] < 0.5:
            spec.setdefault("schedulerName", BATCH_SCHEDULER)
        if kind == "set" and "bursts" in features:
            value["spec"]["replicas"] *= _BURST
        if kind == "job" and "batches" in features and random.random() < _BATCHES:
            _make_batch(value["spec"], random)
        if kind == "pod" and "shared-claims" in features:
            self._share_claim(path, name, spec)
        # The second scheduler knows only the simple rules.
        if kind != "pod" or spec.get("schedulerName") == SECOND_SCHEDULER or not self._parts.has(name, at):
            return
        if "hopeless" in features and draws[1] < 0.5:
            spec |= random.choice(_HOPELESS)
            self._users.delete_at(at + random.expovariate(1 / _HOPES_SECONDS), f"{path}/{name}")
        if "crowds" in features and draws[2] < 0.6:
            spec["schedulingGates"] = [{"name": "example.com/quota"}]
            self._users.open_gates_at(at + random.expovariate(1 / _GATED_SECONDS), f"{path}/{name}")

    def _share_claim(self, path: str, name: str, spec: Object) -> None:
        """Let a pod have the claim of an earlier one of its namespace, at times; nothing uses its own then."""
        random, earlier = self._random(f"claim of {name}"), self._claims[path]
        for volume in spec.get("volumes", ()):
            source = volume["persistentVolumeClaim"]
            if earlier and random.random() < _SHARED:
                source["claimName"] = random.choice(earlier)
            else:
                earlier.append(source["claimName"])

    def _plan_to_make_again(self, at: float, path: str, value: Object) -> None:
        """Let a pod be made again once or more: while it is decided about, being bound, or later."""
        random = self._random(f"{value['metadata']['name']} again")
        while random.random() < 0.6:
            at += random.choice((0.01, 0.3, 3.0, 20.0)) * random.uniform(0.5, 1.5)
            if at < self._busy:
                self._users.make_again_at(at, path, value)

    def _plan_daemons(self) -> None:
        random = self._random("daemons")
        for number in range(random.randint(1, _MOST_DAEMONS)):
            name, at = f"daemon-{number}", random.uniform(0.0, self._busy)
            template = {**draw_template(Draft(frozenset(), frozenset(), 1, (1,)), random)}
            template["spec"].pop("initContainers", None)
            if self._parts.has(name, at):
                self._users.create_at(at, [self._workload("daemon", name, template)])

    def _pod(self, name: str, random: Random) -> tuple[Wanted, int]:
        pod = draw_pod(self.draft, random)
        value = {**pod, "metadata": {**pod["metadata"], "name": name}}
        namespace = TEAM if "namespaces" in self.draft.features and random.random() < 0.3 else "default"
        pods, claims = PODS.format(namespace), _CLAIMS.format(namespace)
        if "volumes" not in self.draft.actors or random.random() < 0.6:
            return [(pods, value)], 1
        claim = draw_claim(f"claim-of-{name}", random)
        source = {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        value["spec"]["volumes"] = [{"name": "data", **source}]
        wanted = [(claims, claim), (pods, value)]
        return wanted[:: random.choice((1, 1, -1))], 1

    def _set(self, name: str, random: Random) -> tuple[Wanted, int]:
        replicas = random.randint(1, 8)
        template = draw_template(self.draft, random)
        return [self._workload("set", name, template, replicas=replicas)], replicas

    def _job(self, name: str, random: Random) -> tuple[Wanted, int]:
        completions = random.randint(1, 6)
        template = draw_template(self.draft, random)
        template["spec"]["restartPolicy"] = "Never"
        parallelism = random.randint(1, completions)
        job = {"template": template, "completions": completions, "parallelism": parallelism}
        return [(_WORKLOADS["job"], {"metadata": {"name": name}, "spec": job})], completions

    def _workload(self, kind: str, name: str, template: Object, **spec: Any) -> tuple[str, Object]:
        """Return an owner whose selector names it."""
        labels = {**template["metadata"]["labels"], "owner": name}
        template = {**template, "metadata": {"labels": labels}}
        spec = {"selector": {"matchLabels": {"owner": name}}, "template": template, **spec}
        return _WORKLOADS[kind], {"metadata": {"name": name}, "spec": spec}


def _pod_spec(kind: str, name: str, wanted: Wanted) -> Object:
    """Return the spec of a pod, or of the pods of an owner, among what its users create."""
    value = next(value for _, value in wanted if value["metadata"]["name"] == name)
    spec: Object = value["spec"] if kind == "pod" else value["spec"]["template"]["spec"]
    return spec


def _make_batch(job: Object, random: Random) -> None:
    """Let a Job have tens of pods, all at once; most are small, so that one of them changes little on a large node."""
    job["completions"] = job["parallelism"] = job["completions"] * _BATCH
    if random.random() < 0.7:
        for container in job["template"]["spec"]["containers"]:
            container["resources"] = {"requests": {"cpu": "20m", "memory": "16Mi"}}


def _start_provisioner(client: ActorClient, slow_until: float) -> None:
    views = SharedViews(client)
    Provisioner(client, views, slow_until)
    views.start()
