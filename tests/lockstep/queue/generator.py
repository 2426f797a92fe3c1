"""Random scripts for a scheduling queue: how to make it, and what happens to it (fields: reference_queue/script.go).

A script depends on its seed alone. Half of the scripts have distinct times. The others have ties, which kube-scheduler
may break in any order, and nothing in them whose outcome depends on that order.

The tag `mayBeInTwo` marks the steps after which kube-scheduler may have a pod in two queues (docs/scheduler-queue.md).
Only there may our queue differ.
"""

import copy
from random import Random
from typing import Any

from extender_service.config.release import OLDEST_MINOR
from extender_service.framework import cluster_event as kinds
from extender_service.framework.cluster_event import ActionType

Script = dict[str, Any]
Step = dict[str, Any]

TICKS_A_SECOND = 512
PROFILES = ("default-scheduler", "second")
REJECTING = ("NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", "Custom", "Mute")
PRE_ENQUEUE = ("SchedulingGates", "Hold", "Quota")
LABEL_VALUES = ("a", "b", "c")
NODES = ("node-1", "node-2", "node-3")
WIDGETS = "widgets.v1.example.com"
RULES = ("queue", "skip", "error", "same", "changed")
REGISTERED = (
    (kinds.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
    (kinds.NODE, ActionType.UPDATE_NODE_TAINT),
    (kinds.NODE, ActionType.ALL),
    (kinds.POD, ActionType.ADD),
    (kinds.POD, ActionType.DELETE),
    (kinds.POD, ActionType.UPDATE_POD_LABEL),
    (kinds.POD, ActionType.UPDATE_POD_SCALE_DOWN),
    (kinds.POD, ActionType.UPDATE),
    (kinds.PERSISTENT_VOLUME, ActionType.ADD),
    (WIDGETS, ActionType.ADD | ActionType.UPDATE),
    (kinds.WILD_CARD, ActionType.ADD),
    (kinds.WILD_CARD, ActionType.ALL),
)
# What is reported of nodes and other kinds: resource, action, label; whether there is an object before, and after.
REPORTED = (
    (kinds.NODE, ActionType.ADD, "NodeAdd", False, True),
    (kinds.NODE, ActionType.DELETE, "NodeDelete", True, False),
    (kinds.NODE, ActionType.UPDATE_NODE_LABEL, "NodeLabelChange", True, True),
    (kinds.NODE, ActionType.UPDATE_NODE_TAINT, "NodeTaintChange", True, True),
    (kinds.NODE, ActionType.UPDATE_NODE_ALLOCATABLE, "NodeAllocatableChange", True, True),
    (kinds.PERSISTENT_VOLUME, ActionType.ADD, "PvAdd", False, False),
    (WIDGETS, ActionType.UPDATE, "WidgetsUpdate", False, False),
    ("gadgets.v1.example.com", ActionType.ADD, "GadgetsAdd", False, False),
    (kinds.WILD_CARD, ActionType.ALL, "WildCardEvent", False, False),
)


def generate(seed: int, minor: int = OLDEST_MINOR) -> Script:
    """Return the script of a seed, for the queue of the release 1.`minor`."""
    writer = _Writer if minor == OLDEST_MINOR else _LaterWriter
    return writer(Random(seed), f"seed {seed}").write()


class _Writer:
    """Writes one script. It follows what the watch of pods would show, and knows nothing of the queue."""

    registered: tuple[tuple[str, ActionType], ...] = REGISTERED
    assigned_pod, own_pod = kinds.POD, kinds.POD
    most_changes = 2

    def __init__(self, random: Random, name: str) -> None:
        self.random = random
        self.has_ties = random.random() < 0.5
        self.hints = self.uses_hints()
        self.sort = "rank" if random.random() < 0.1 else "priority"
        self.pre_enqueue = PRE_ENQUEUE[:1] if self.has_ties else PRE_ENQUEUE
        self.objects: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        self.name = name
        self.version = 0
        self.ticks = 0
        self.fractions = {0}
        self.pending: dict[str, int] = {}
        self.assigned: dict[str, int] = {}
        self.older: list[tuple[int, int]] = []

    def write(self) -> Script:
        random = self.random
        profiles = {name: self.profile() for name in PROFILES[: random.choice((1, 1, 2))]}
        self.profiles = tuple(profiles)
        if random.random() < 0.7:
            self.step("namespace", namespace="ns", labels={"team": random.choice(LABEL_VALUES)})
        actions = [
            (self.create, 14), (self.change, 16), (self.remove, 4), (self.bind, 5), (self.pop, 22), (self.fail, 18),
            (self.finish, 3), (self.report, 14), (self.report_assigned, 6), (self.flush, 12), (self.pass_time, 8),
            (self.activate, 5), (self.nominate, 4), (self.quota, 5), (self.confuse, 0 if self.has_ties else 2),
        ]  # fmt: skip
        self.quota()
        some = random.choices(*zip(*actions, strict=True), k=random.randint(30, 90))
        for action in [self.create] * random.randint(0, 8) + some:
            if not self.has_ties:
                self.pass_distinct_time()
            action()
        return {
            "name": self.name,
            **self.switches(),
            "backoff": random.choice(((1, 10), (1, 10), (1, 1), (2, 7), (5, 3))),
            "leftover": random.choice((300, 60, 5)),
            "sort": self.sort,
            "profiles": profiles,
            "plugins": [*REJECTING, *PRE_ENQUEUE],
            "objects": self.objects,
            "steps": self.steps,
        }

    def uses_hints(self) -> bool:
        return self.random.random() < 0.5

    def switches(self) -> dict[str, Any]:
        """What feature gates are set to."""
        return {"hints": self.hints}

    def profile(self) -> dict[str, Any]:
        random = self.random
        chosen = [name for name in self.pre_enqueue if name == "SchedulingGates" or random.random() < 0.6]
        hints = []
        if self.hints:
            hints.append(self.hint("SchedulingGates", (self.own_pod, ActionType.UPDATE), "gates"))
        for plugin in (*REJECTING[:-1], *chosen[1:]):
            events = random.sample(self.registered, random.randint(1, 4))
            rules = RULES if self.hints else ("queue",)
            hints += [self.hint(plugin, registered, random.choice(rules)) for registered in events]
        if self.hints and random.random() < 0.4:
            # An update may help in one way and not in another.
            hints.append(self.hint(REJECTING[0], (kinds.POD, ActionType.UPDATE_POD_LABEL), "queue"))
            hints = [hint for hint in hints if hint["plugin"] != REJECTING[0] or hint["rule"] == "queue"]
            hints = [hint for hint in hints if not hint["event"]["action"] & ActionType.UPDATE_POD_SCALE_DOWN]
        return {"preEnqueue": chosen, "hints": hints}

    def hint(self, plugin: str, registered: tuple[str, ActionType], rule: str) -> dict[str, Any]:
        resource, action = registered
        return {"plugin": plugin, "event": {"resource": resource, "action": int(action), "label": ""}, "rule": rule}

    # What happens.

    def create(self) -> None:
        random = self.random
        name = f"p{random.randrange(12)}"
        if name in self.pending or name in self.assigned:
            return
        labels = {key: random.choice(LABEL_VALUES) for key in ("app", "pre", "rank")}
        spec: dict[str, Any] = {
            "schedulerName": random.choice(self.profiles),
            "priority": random.choice((0, 0, 0, 10, -5)),
            "containers": [{"name": "c", "resources": {"requests": {"cpu": random.choice(("1", "500m", "2"))}}}],
        }
        if random.random() < 0.1:
            spec["schedulingGates"] = [{"name": gate} for gate in random.sample(("one", "two"), random.randint(1, 2))]
        if random.random() < 0.3:
            spec["affinity"] = {random.choice(("podAffinity", "podAntiAffinity")): self.affinity()}
        if "Hold" in self.pre_enqueue and random.random() < 0.1:
            labels["hold"] = random.choice(("true", "error"))
        if "Quota" in self.pre_enqueue and random.random() < 0.3:
            labels["quota"] = "x"
        self.version += 1
        metadata = {"name": name, "namespace": "ns", "uid": f"{name}-{self.version}", "labels": labels}
        index = self.keep({"kind": "Pod", "metadata": metadata, "spec": spec, "status": {}})
        self.pending[name] = index
        self.step("watched", pod=index)
        self.step("add", pod=index)

    def affinity(self) -> dict[str, Any]:
        random = self.random
        term: dict[str, Any] = {
            "topologyKey": "zone",
            "labelSelector": {"matchLabels": {"app": random.choice(LABEL_VALUES)}},
        }
        if random.random() < 0.3:
            term["namespaceSelector"] = {"matchLabels": {"team": random.choice(LABEL_VALUES)}}
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}

    def change(self, twice: bool = False) -> None:
        """A pod that is on no node changes; `twice`: in two ways about which plugins are asked apart."""
        if not self.pending:
            return
        random = self.random
        name = random.choice(sorted(self.pending))
        old = self.pending[name]
        pod = copy.deepcopy(self.objects[old])
        labels, spec, status = pod["metadata"]["labels"], pod["spec"], pod["status"]
        requests = spec["containers"][0]["resources"]["requests"]
        is_scaled_down = has_other_labels = False
        changes = ("label", "label", "gates", "scale", "nominated", "status", "annotation", "hold", "deadline", "claim")
        some = ("label", "scale") if twice else random.choices(changes, k=random.choice((1, 1, 2)))
        for what in some[: self.most_changes]:
            if what == "label":
                key, value = random.choice(("app", "pre", "rank")), random.choice(LABEL_VALUES)
                has_other_labels |= labels[key] != value
                labels[key] = value
            elif what == "gates":
                gates = spec.pop("schedulingGates", [])[1:]
                spec |= {"schedulingGates": gates} if gates else {}  # the API server sends no empty list
            elif what == "scale":
                less = {"2": "1", "1": "500m", "500m": "100m"}.get(requests["cpu"], "2")
                is_scaled_down = less != "2"
                requests["cpu"] = less
            elif what == "nominated":
                status["nominatedNodeName"] = random.choice((*NODES, ""))
            elif what == "status":
                status["conditions"] = [{"type": "PodScheduled", "status": "False", "message": str(self.version)}]
            elif what == "annotation":
                pod["metadata"]["annotations"] = {"note": str(self.version)}
            elif what == "claim":
                status |= self.claim()
            elif what == "deadline":
                spec["activeDeadlineSeconds"] = self.version
            elif "Hold" in self.pre_enqueue:
                has_other_labels |= labels.pop("hold", None) is not None
        new = self.keep(pod)
        self.pending[name] = new
        self.older.append((old, new))
        self.step("watched", pod=new)
        in_two = {"mayBeInTwo": True} if self.hints and is_scaled_down and has_other_labels else {}
        self.step("update", old=old, new=new, **in_two)

    def remove(self) -> None:
        """A pod is deleted; if it ran, its room may help others."""
        random = self.random
        if self.assigned and random.random() < 0.5:
            name = random.choice(sorted(self.assigned))
            pod = self.assigned.pop(name)
            self.step("gone", pod=pod)
            self.move((self.assigned_pod, ActionType.DELETE, "AssignedPodDelete"), pod, None)
        elif self.pending:
            pod = self.pending.pop(random.choice(sorted(self.pending)))
            self.step("gone", pod=pod)
            self.step("delete", pod=pod)

    def bind(self) -> None:
        """The watch shows that a pod is on a node, whatever the queue knows of it."""
        if not self.pending:
            return
        random = self.random
        name = random.choice(sorted(self.pending))
        old = self.pending.pop(name)
        pod = copy.deepcopy(self.objects[old])
        pod["spec"]["nodeName"] = random.choice(NODES)
        new = self.assigned[name] = self.keep(pod)
        self.step("watched", pod=new)
        if self.hints:
            self.move((self.assigned_pod, ActionType.ADD, "AssignedPodAdd"), None, new)
        else:
            self.step("assigned_pod_added", pod=new)
        self.step("delete", pod=old)

    def pop(self) -> None:
        for _ in range(self.random.choice((1, 1, 2, 4))):
            self.step("pop")

    def fail(self) -> None:
        """An attempt fails: rejected by plugins, by some that wait for others, or by none, which is an error."""
        random = self.random
        if random.random() < 0.6:
            self.step("pop")
        kind = random.choice(("unschedulable", "unschedulable", "unschedulable", "pending", "both", "error"))
        plugins = [*REJECTING, *(["SchedulingGates"] if random.random() < 0.05 else [])]
        unschedulable = random.sample(plugins, random.randint(1, 3)) if kind in ("unschedulable", "both") else []
        pending = random.sample(plugins, random.randint(1, 2)) if kind in ("pending", "both") else []
        self.step(
            "failed",
            flight=random.randrange(8),
            unschedulable=unschedulable,
            pending=pending,
            cyclesAgo=random.choice((0, 0, 0, 1, 3)),
        )
        while self.hints and random.random() < 0.4:
            self.change(twice=True)

    def finish(self) -> None:
        self.step("done", flight=self.random.randrange(8))

    def report(self) -> None:
        """Something happens to a node, or to an object of another kind."""
        random = self.random
        resource, action, label, has_old, has_new = random.choice(REPORTED)
        old = self.node() if has_old else None
        new = self.node() if has_new else None
        pre_check = random.choice(LABEL_VALUES) if resource == kinds.NODE and random.random() < 0.7 else ""
        self.move((resource, action, label), old, new, pre_check)

    def report_assigned(self) -> None:
        """A pod that runs changes."""
        if not self.assigned:
            return
        random = self.random
        name = random.choice(sorted(self.assigned))
        old = self.assigned[name]
        pod = copy.deepcopy(self.objects[old])
        pod["metadata"]["labels"]["app"] = random.choice(LABEL_VALUES)
        new = self.assigned[name] = self.keep(pod)
        self.step("watched", pod=new)
        self.report_change(old, new)

    def claim(self) -> dict[str, Any]:
        """What the status of a pod has of a claim that was made for it."""
        return {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"gpu-{self.version}"}]}

    def report_change(self, old: int, new: int) -> None:
        random = self.random
        if self.hints and random.random() < 0.8:
            self.move((kinds.POD, ActionType.UPDATE, "AssignedPodUpdate"), old, new)
            return
        action, label = random.choice(
            (
                (ActionType.UPDATE_POD_LABEL, "PodLabelChange"),
                (ActionType.UPDATE_POD_SCALE_DOWN, "PodRequestScaledDown"),
                (ActionType.UPDATE_POD_OTHER, "AssignedPodUpdate"),
            )
        )
        event = {"resource": kinds.POD, "action": int(action), "label": label}
        self.step("assigned_pod_updated", old=old, new=new, event=event)

    def flush(self) -> None:
        self.step(self.random.choice(("flush_backoff", "flush_backoff", "flush_leftover")))

    def pass_time(self) -> None:
        if self.has_ties:
            self.step("clock", ticks=self.random.choice((256, 512, 1024, 2560, 5120, 40 * 512)))

    def pass_distinct_time(self) -> None:
        """Go to a moment whose fraction of a second is new: then no two ends of a backoff are equal."""
        fraction = self.random.choice([tick for tick in range(TICKS_A_SECOND) if tick not in self.fractions])
        self.fractions.add(fraction)
        seconds = self.random.choice((0, 0, 0, 0, 0, 0, 1, 1, 2, 4, 61))
        ticks = (fraction - self.ticks) % TICKS_A_SECOND + seconds * TICKS_A_SECOND
        self.ticks += ticks
        self.step("clock", ticks=ticks)

    def activate(self) -> None:
        pods = sorted(self.pending.values())
        if pods:
            self.step("activate", pods=self.random.sample(pods, min(len(pods), self.random.randint(1, 3))))

    def nominate(self) -> None:
        random = self.random
        pods = sorted((*self.pending.values(), *self.assigned.values()))
        if not pods:
            return
        pod = random.choice(pods)
        if random.random() < 0.2:
            self.step("unnominate", pod=pod)
        else:
            mode = random.choice(("override", "override", "noop", "nil"))
            self.step("nominate", pod=pod, mode=mode, node=random.choice((*NODES, "")))

    def quota(self) -> None:
        if "Quota" in self.pre_enqueue:
            self.step("quota", open=self.random.random() < 0.5)

    def confuse(self) -> None:
        """News comes twice or out of order."""
        random = self.random
        what = random.choice(("add", "update", "delete"))
        if what == "update" and self.older:
            old, new = random.choice(self.older)
            if not self.hints:
                self.step("update", old=old, new=new)
        elif what == "delete" and self.objects:
            pods = [index for index, item in enumerate(self.objects) if item["kind"] == "Pod"]
            if pods:
                self.step("delete", pod=random.choice(pods))
        elif what == "add" and self.pending and not self.hints:
            self.step("add", pod=random.choice(sorted(self.pending.values())))

    # How it is written.

    def step(self, op: str, **fields: Any) -> None:
        self.steps.append({"op": op, **fields})

    def move(self, event: tuple[str, ActionType, str], old: int | None, new: int | None, pre_check: str = "") -> None:
        resource, action, label = event
        written = {"resource": resource, "action": int(action), "label": label}
        self.step("move", event=written, old=old, new=new, preCheck=pre_check)

    def node(self) -> int:
        labels = {"app": self.random.choice(LABEL_VALUES)}
        return self.keep({"kind": "Node", "metadata": {"name": self.random.choice(NODES), "labels": labels}})

    def keep(self, item: dict[str, Any]) -> int:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects.append(item)
        return len(self.objects) - 1


class _LaterWriter(_Writer):
    """Writes a script for v1.37.2: hints are always on, and pods leave backoff early in most scripts.

    Where they do not, kube-scheduler may have a pod in two queues after an update that is several changes: then there
    are none.
    """

    registered = (
        *REGISTERED,
        (kinds.ASSIGNED_POD, ActionType.DELETE),
        (kinds.ASSIGNED_POD, ActionType.ADD | ActionType.UPDATE_POD_LABEL),
        (kinds.TARGET_POD, ActionType.UPDATE),
        (kinds.TARGET_POD, ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION),
        (kinds.TARGET_POD, ActionType.UPDATE_POD_SCALE_DOWN | ActionType.UPDATE_POD_SCALE_UP),
        (kinds.TARGET_POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
    )
    assigned_pod, own_pod = kinds.ASSIGNED_POD, kinds.TARGET_POD

    def uses_hints(self) -> bool:
        self.leaves_early = self.random.random() < 0.8
        self.most_changes = 2 if self.leaves_early else 1
        return True

    def switches(self) -> dict[str, Any]:
        return {"earlyPop": self.leaves_early}

    def claim(self) -> dict[str, Any]:
        if self.version % 2:
            return super().claim()
        return {"extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": f"gpu-{self.version}"}}

    def report_change(self, old: int, new: int) -> None:
        action, label = self.random.choice(
            (
                (ActionType.UPDATE_POD_LABEL, "AssignedPodUpdatePodLabel"),
                (ActionType.UPDATE_POD_SCALE_DOWN, "AssignedPodUpdatePodScaleDown"),
                (ActionType.UPDATE, "AssignedPodUpdate"),
            )
        )
        self.move((kinds.ASSIGNED_POD, action, label), old, new)

    def confuse(self) -> None:
        """News comes twice or out of order: a pod that may be in flight is deleted and listed again."""
        if self.pending and self.sort != "rank" and self.random.random() < 0.5:
            pod = self.pending[self.random.choice(sorted(self.pending))]
            self.step("delete", pod=pod)
            self.step("add", pod=pod)
        else:
            super().confuse()

    def activate(self) -> None:
        if self.pending:  # one at a time: kube-scheduler notes those in flight in any order
            self.step("activate", pods=[self.random.choice(sorted(self.pending.values()))])

    def step(self, op: str, **fields: Any) -> None:
        """Leave out what only v1.31.1's queue has."""
        for name in ("cyclesAgo", "mayBeInTwo"):
            fields.pop(name, None)
        super().step(op, **fields)
