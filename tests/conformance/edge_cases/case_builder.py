"""A case under construction: a cluster, a pending pod, and what the configuration changes."""

import datetime as dt
import random
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

Item = dict[str, Any]
T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
TOPOLOGY_KEYS = [HOSTNAME, ZONE, REGION, "rack", "example.com/Row_1.a", "absent"]
NAMESPACES = ["default", "team-a", "team-b", "no-object"]

_EPOCH = dt.datetime(2024, 1, 1)


class Source(random.Random):
    """A random source with shorthands."""

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def some(self, items: Collection[T], low: int, high: int) -> list[T]:
        """Return between low and high different items."""
        return self.sample(list(items), min(self.randint(low, high), len(items)))

    def again(self, items: list[T]) -> list[T]:
        """Return the items, some of them a second time."""
        return [*items, *self.choices(items, k=self.randint(1, 2))] if items else []

    def weighted(self, weights: Mapping[T, int]) -> T:
        return self.choices(list(weights), list(weights.values()))[0]


def timestamp(minutes: int) -> str:
    """Return a time as Kubernetes writes it."""
    return (_EPOCH + dt.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


class CaseBuilder:
    """Collects the objects of a case. Features add to it in any order."""

    def __init__(self, name: str, rng: Source) -> None:
        self.name = name
        self.rng = rng
        self.nodes: list[Item] = []
        self.pods: list[Item] = []
        self.pod = self._new_pod("pending", rng.choice(NAMESPACES[:2]), self.labels())
        self._objects: dict[tuple[str, str, str], Item] = {}
        self._args: dict[str, Item] = {}
        self._plugins: dict[str, dict[str, list[Item]]] = {}
        for namespace in NAMESPACES[:3]:
            self.add("v1", "Namespace", namespace, labels=rng.choice([{}, {"team": ""}, {"team": "a"}]))

    def labels(self) -> dict[str, str]:
        """Return labels of a pod."""
        values = {"app": ["web", "db"], "tier": ["", "front"], "example.com/Part_1.a": ["x", "Y.z"]}
        return {key: self.rng.choice(values[key]) for key in self.rng.some(values, 0, 3)}

    def add_nodes(self, count: int) -> None:
        """Add nodes with room for some pods and with all the usual labels."""
        for number in range(count):
            name = f"node-{number}"
            labels = {
                HOSTNAME: name,
                ZONE: self.rng.choice(["z1", "z2", "z3"]),
                REGION: self.rng.choice(["r1", "r2"]),
                "rack": self.rng.choice(["a", "b", "c"]),
            }
            self.nodes.append(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name, "labels": labels},
                    "spec": {},
                    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi", "pods": "20"}},
                }
            )

    def add_running(self, node: Item, namespace: str | None = None, labels: dict[str, str] | None = None) -> Item:
        """Add a pod that runs on a node."""
        number = len(self.pods)
        where = self.rng.choice([self.pod["metadata"]["namespace"], *NAMESPACES]) if namespace is None else namespace
        pod = self._new_pod(f"pod-{number}", where, self.labels() if labels is None else labels)
        pod["spec"]["nodeName"] = node["metadata"]["name"]
        # Start times that differ keep the order of preemption's victims defined.
        pod["status"] = {"phase": "Running", "startTime": timestamp(self.rng.randrange(500) * 10_000 + number)}
        self.pods.append(pod)
        return pod

    def add_pods(self, low: int, high: int) -> None:
        """Add between low and high running pods to each node."""
        for node in self.nodes:
            for _ in range(self.rng.randint(low, high)):
                self.add_running(node)

    def add(
        self, api_version: str, kind: str, name: str, namespace: str = "", labels: Any = None, **fields: Any
    ) -> Item:
        """Add an object that is neither a node nor a pod; it replaces one of the same name."""
        metadata: Item = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}"}
        if namespace:
            metadata["namespace"] = namespace
        if labels is not None:
            metadata["labels"] = labels
        item = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        self._objects[kind, namespace, name] = item
        return item

    def find(self, kind: str, name: str) -> Item:
        """Return an object without a namespace that was added before."""
        return self._objects[kind, "", name]

    def set_args(self, plugin: str, **args: Any) -> None:
        """Set arguments of a plugin."""
        self._args.setdefault(plugin, {}).update(args)

    def enable(self, point: str, plugin: str, weight: int | None = None) -> None:
        """Enable a plugin at an extension point with a weight of its own."""
        plugins = self._plugins.setdefault(point, {"enabled": [], "disabled": []})
        plugins["disabled"].append({"name": plugin})
        plugins["enabled"].append({"name": plugin} if weight is None else {"name": plugin, "weight": weight})

    def disable(self, point: str, *plugins: str) -> None:
        """Disable plugins at an extension point."""
        self._plugins.setdefault(point, {"enabled": [], "disabled": []})["disabled"] += [{"name": n} for n in plugins]

    def encode(self) -> Item:
        """Return the case as the oracle reads it."""
        pods = list(self.pods)
        self.rng.shuffle(pods)
        case: Item = {"name": self.name, "objects": [*self.nodes, *self._objects.values(), *pods], "pod": self.pod}
        if self._args or self._plugins:
            case["config"] = {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [
                    {
                        "schedulerName": "default-scheduler",
                        "plugins": self._plugins,
                        "pluginConfig": [{"name": name, "args": args} for name, args in self._args.items()],
                    }
                ],
            }
        return case

    def _new_pod(self, name: str, namespace: str, labels: dict[str, str]) -> Item:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels},
            "spec": {"containers": [{"name": "main", "image": "app:v1"}]},
            "status": {},
        }


def selector(rng: Source) -> Item | None:
    """Return a label selector: none, an empty one, or one that names empty values and repeats itself."""
    kind = rng.choice(["none", "empty", "empty lists", "labels", "labels", "expressions", "both"])
    if kind == "none":
        return None
    if kind == "empty":
        return {}
    if kind == "empty lists":
        return {"matchLabels": {}, "matchExpressions": []}
    found: Item = {}
    if kind != "expressions":
        found["matchLabels"] = rng.choice([{"app": "web"}, {"tier": ""}, {"app": "db", "tier": ""}, {"absent": ""}])
    if kind != "labels":
        found["matchExpressions"] = rng.again(_requirements(rng))
    return found


def _requirements(rng: Source) -> list[Item]:
    operators = rng.choices(["In", "NotIn", "Exists", "DoesNotExist"], k=rng.randint(1, 2))
    return [_requirement(rng, operator) for operator in operators]


def _requirement(rng: Source, operator: str) -> Item:
    key = rng.choice(["app", "tier", "example.com/Part_1.a", "absent"])
    requirement: Item = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        requirement["values"] = rng.again(rng.some(["web", "db", "", "front", "Y.z"], 1, 3))
    return requirement


def with_selector(item: Item, field: str, chosen: Item | None) -> Item:
    """Return an item with a selector, unless there is none."""
    return item if chosen is None else {**item, field: chosen}


def requests(pod: Item, amounts: Mapping[str, str]) -> None:
    """Let the first container of a pod request amounts."""
    pod["spec"]["containers"][0]["resources"] = {"requests": dict(amounts)}


def everyone(case: CaseBuilder) -> Iterable[Item]:
    """The running pods and the pending one."""
    return [*case.pods, case.pod]
