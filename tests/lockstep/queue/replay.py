"""Replays a script on our queue, beside what kube-scheduler's queue did, and reports the first state that differs."""

import heapq
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from extender_service.config.release import OLDEST_MINOR
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import ActionType, ClusterEvent, QueueingHint
from extender_service.framework.interface import PreEnqueue, QueuedPod, QueueSort
from extender_service.framework.profile import Profile
from extender_service.framework.queueing_hints import HintFunction, QueueingHints, RegisteredHint
from extender_service.framework.status import Code, Status, unresolvable
from extender_service.kube.types.core import Node, Pod, pod_name
from extender_service.kube.types.pending_pods import PendingPod
from extender_service.plugins.queue_sort import PrioritySort
from extender_service.queue.in_flight_events import InFlightEvent
from extender_service.queue.pod_backoff import NEVER, PodBackoff
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import SchedulingQueue
from tests.lockstep.queue.generator import TICKS_A_SECOND, Script, Step
from tests.support.clock import Clock

State = dict[str, Any]

START: Final = 1_000_000.0
NANOSECONDS_A_TICK: Final = 1_953_125


class DifferenceError(Exception):
    """The queues differ after a step; the text says how."""


def replay(script: Script, states: list[State], minor: int = OLDEST_MINOR) -> Counter[str]:
    """Run a script beside the states of the queue of kube-scheduler 1.`minor`: one before it, and one after each step.

    Returns how many steps there were of each kind, and how often kube-scheduler had a pod in two queues. Raises
    DifferenceError.
    """
    world = _World(script) if minor == OLDEST_MINOR else _LaterWorld(script)
    seen: Counter[str] = Counter()
    _compare(script, -1, world.state({}), states[0])
    for number, (step, theirs) in enumerate(zip(script["steps"], states[1:], strict=True)):
        popped = theirs.get("popped")
        if popped is not None:
            world.break_tie(popped["key"])
        world.follow_gates(theirs["unschedulable"])
        answer = world.apply(step)
        if theirs.pop("inTwo", False):
            seen["in two queues"] += 1
        seen[step["op"]] += 1
        _compare(script, number, world.state(answer), theirs)
    return seen + Counter({f"to {queue_and_event}": count for queue_and_event, count in world.incoming_pods.items()})


def _compare(script: Script, number: int, ours: State, theirs: State) -> None:
    if ours == theirs:
        return
    step = script["steps"][number] if number >= 0 else "none"
    parts = [
        f"  {part}:\n    ours   {ours.get(part)}\n    theirs {theirs.get(part)}"
        for part in sorted({*ours, *theirs})
        if ours.get(part) != theirs.get(part)
    ]
    raise DifferenceError("\n".join([f"{script['name']}, step {number}: {step}", *parts]))


class _World:
    """A queue, and what surrounds it in a scheduler (world in reference_queue/run.go)."""

    rules_of = staticmethod(lambda script: rules_of(OLDEST_MINOR, {"SchedulerQueueingHints": script["hints"]}))

    def __init__(self, script: Script) -> None:
        self.clock = Clock()
        self.clock.now = START
        self.objects = [_object(item) for item in script["objects"]]
        self.watched: dict[str, PendingPod] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.quota_is_open = False
        self.least_number = 0
        self.flight: list[QueuedPodInfo] = []
        self.incoming_pods: Counter[str] = Counter()
        self.rejected_pods: Counter[str] = Counter()
        initial, maximum = script["backoff"]
        self.gated_by: dict[str, str] = {}
        sort = _SortByRank() if script["sort"] == "rank" else _Priority()
        self.queue = SchedulingQueue(
            {name: self.profile(name, config, sort) for name, config in script["profiles"].items()},
            {name: _hints(config["hints"]) for name, config in script["profiles"].items()},
            self.rules_of(script),
            clock=self.clock,
            metrics=self,
            is_pending=lambda key: key in self.watched and not self.watched[key].spec.node_name,
            namespace_labels=lambda name: self.namespaces.get(name, {}),
            backoff=PodBackoff(initial, maximum),
            max_in_unschedulable_seconds=script["leftover"],
        )

    def profile(self, name: str, config: dict[str, Any], sort: QueueSort) -> Profile:
        gates = [(_Gate(plugin, self), 0) for plugin in config["preEnqueue"]]
        return Profile(name, {"preEnqueue": gates, "queueSort": [(sort, 0)]})

    # QueueMetrics.

    def incoming(self, queue: str, event: str) -> None:
        self.incoming_pods[f"{queue}/{event}"] += 1

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        self.rejected_pods[f"{plugin}/{profile}"] += change

    # Steps.

    def break_tie(self, key: str) -> None:
        """Put a pod before its equals, where kube-scheduler's queue chose it."""
        heap = self.queue._active if key in self.queue._active else self.queue._backing_off._rejected
        first, chosen = heap.peek(), heap._entries[key]
        assert first is not None
        if first.key == key or heap._entries[first.key][0] < chosen[0]:
            return
        self.least_number -= 1
        entry = [chosen[0], self.least_number, key, chosen[3]]
        heap.remove(key)
        heap._entries[key] = entry
        heapq.heappush(heap._heap, entry)

    def follow_gates(self, unschedulable: list[State]) -> None:
        """Note which plugin has rejected a pod where kube-scheduler asks them in any order."""

    def apply(self, step: Step) -> State:
        answer: State | None = getattr(self, f"step_{step['op']}")(step)
        return answer or {}

    def pod(self, index: int) -> PendingPod:
        pod = self.objects[index]
        assert isinstance(pod, PendingPod)
        return pod

    def object(self, step: Step, name: str) -> PendingPod | Node | None:
        index = step.get(name)
        return None if index is None else self.objects[index]

    def step_add(self, step: Step) -> None:
        self.queue.add(self.pod(step["pod"]))

    def step_update(self, step: Step) -> None:
        self.queue.update(self.pod(step["old"]), self.pod(step["new"]))

    def step_delete(self, step: Step) -> None:
        self.queue.delete(self.pod(step["pod"]))

    def step_pop(self, step: Step) -> State | None:
        info = self.queue.pop()
        if info is None:
            return None
        self.flight.append(info)
        return {"popped": self.described(info)}

    def step_done(self, step: Step) -> None:
        info = self.land(step["flight"])
        if info is not None:
            self.queue.done(info.pod.metadata.uid)

    def step_failed(self, step: Step) -> State | None:
        info = self.land(step["flight"])
        if info is None:
            return None
        info.unschedulable_plugins = frozenset(step["unschedulable"])
        info.pending_plugins = frozenset(step["pending"])
        info.pod = self.watched.get(info.key, info.pod)
        kept = self.queue.add_unschedulable_if_not_present(info, self.queue.scheduling_cycle - step.get("cyclesAgo", 0))
        return None if kept else {"failed": True}

    def step_move(self, step: Step) -> None:
        label = step["preCheck"]
        pre_check = (lambda pod: pod.metadata.labels.get("pre", "") == label) if label else None
        old, new = self.object(step, "old"), self.object(step, "new")
        self.queue.move_all_to_active_or_backoff(_event(step["event"]), old, new, pre_check)

    def step_assigned_pod_added(self, step: Step) -> None:
        self.queue.assigned_pod_added(self.pod(step["pod"]))

    def step_assigned_pod_updated(self, step: Step) -> None:
        self.queue.assigned_pod_updated(self.pod(step["old"]), self.pod(step["new"]), _event(step["event"]))

    def step_activate(self, step: Step) -> None:
        self.queue.activate([self.pod(index) for index in step["pods"]])

    def step_nominate(self, step: Step) -> None:
        self.queue.nominator.add(self.pod(step["pod"]), step["node"] if step["mode"] == "override" else None)

    def step_unnominate(self, step: Step) -> None:
        self.queue.nominator.remove(self.pod(step["pod"]))

    def step_clock(self, step: Step) -> None:
        self.clock.pass_seconds(step["ticks"] / TICKS_A_SECOND)

    def step_flush_backoff(self, step: Step) -> None:
        self.queue.flush_backoff_completed()

    def step_flush_leftover(self, step: Step) -> None:
        self.queue.flush_unschedulable_leftover()

    def step_watched(self, step: Step) -> None:
        pod = self.pod(step["pod"])
        self.watched[pod_name(pod)] = pod

    def step_gone(self, step: Step) -> None:
        self.watched.pop(pod_name(self.pod(step["pod"])), None)

    def step_namespace(self, step: Step) -> None:
        self.namespaces[step["namespace"]] = step["labels"]

    def step_quota(self, step: Step) -> None:
        self.quota_is_open = step["open"]

    def land(self, index: int) -> QueuedPodInfo | None:
        return self.flight.pop(index % len(self.flight)) if self.flight else None

    # States.

    def state(self, answer: State) -> State:
        queue = self.queue
        nominator = queue.nominator
        return answer | {
            "active": self.all_described(queue._active),
            "backoff": self.all_described(queue._backing_off),
            "unschedulable": self.all_described(queue._unschedulable),
            "flight": [self.described(info) for info in self.flight],
            "cycle": queue.scheduling_cycle,
            "moveCycle": queue._move_request_cycle,
            "inFlight": [_in_flight_text(value) for value in queue._in_flight],
            "inFlightPods": sorted(queue._in_flight._positions),
            "nominated": {
                node: [
                    f"{pod_name(pod)} {pod.metadata.uid} {pod.metadata.resource_version}"
                    for pod in queue.nominated_pods_for_node(node)
                ]
                for node in nominator._by_node
            },
            "nominatedNodes": nominator.node_of,
            "incoming": dict(self.incoming_pods),
            "pendingPods": queue.pending_counts(),
            "unschedulableBy": {name: count for name, count in self.rejected_pods.items() if count},
            "summary": queue.pending_pods()[1],
        }

    def all_described(self, infos: Any) -> list[State]:
        found: Iterator[QueuedPodInfo] = iter(infos)
        return [self.described(info) for info in sorted(found, key=lambda info: info.key)]

    def described(self, info: QueuedPodInfo) -> State:
        metadata = info.pod.metadata
        return {
            "key": info.key,
            "uid": metadata.uid,
            "version": metadata.resource_version,
            "attempts": info.attempts,
            "timestamp": _nanoseconds(info.queued_at),
            "backoffEnd": _nanoseconds(self.queue._backing_off.end(info)),
            "firstAttempt": None if info.first_attempt_at is None else _nanoseconds(info.first_attempt_at),
            "gated": info.gated,
            "unschedulable": sorted(info.unschedulable_plugins),
            "pending": sorted(info.pending_plugins),
        }


class _LaterWorld(_World):
    """The same for v1.37.2 (tests/kubernetes_1_37/reference_queue_1_37)."""

    rules_of = staticmethod(lambda script: rules_of(37, {"SchedulerPopFromBackoffQ": script["earlyPop"]}))

    def step_pop(self, step: Step) -> State | None:
        # As in the reference: kube-scheduler drops pods that are in flight already, and would wait for another one.
        queue = self.queue
        leaving = queue._backing_off._rejected if queue._backing_off.may_leave else ()
        is_in_flight = [info.pod.metadata.uid in queue._in_flight for info in (*queue._active, *leaving)]
        return None if all(is_in_flight) else super().step_pop(step)

    def step_failed(self, step: Step) -> State | None:
        if self.flight:
            info = self.flight[step["flight"] % len(self.flight)]
            shown = self.watched.get(info.key)
            if shown is None or shown.spec.node_name or shown.metadata.uid != info.pod.metadata.uid:
                self.step_done(step)
                return None
        return super().step_failed(step)

    def follow_gates(self, unschedulable: list[State]) -> None:
        self.gated_by = {pod["key"]: pod["gatingPlugin"] for pod in unschedulable if pod["gatingPlugin"]}

    def state(self, answer: State) -> State:
        state = super().state(answer)
        del state["moveCycle"]
        failed = {info.key for info in self.queue._backing_off.failed}
        backoff = state.pop("backoff")
        return state | {
            "backoff": [pod for pod in backoff if pod["key"] not in failed],
            "errorBackoff": [pod for pod in backoff if pod["key"] in failed],
            "summary": state["summary"].replace("unschedulablePods", "unschedulableEntities"),
        }

    def described(self, info: QueuedPodInfo) -> State:
        described = super().described(info)
        del described["gated"]
        end = self.queue._backing_off.end(info)
        return described | {
            "rejections": info.rejections,
            "errors": info.errors,
            "backoffEnd": None if end == NEVER else _nanoseconds(end),
            "flushed": info.was_flushed,
            "flushedAt": None if info.flushed_at is None else _nanoseconds(info.flushed_at),
            "gatingPlugin": info.gating_plugin,
        }


def _nanoseconds(seconds: float) -> int:
    if seconds == NEVER:
        return 0
    return round((seconds - START) * TICKS_A_SECOND) * NANOSECONDS_A_TICK


def _object(item: dict[str, Any]) -> PendingPod | Node:
    return msgspec.convert(item, PendingPod) if item["kind"] == "Pod" else msgspec.convert(item, Node)


def _event(written: dict[str, Any]) -> ClusterEvent:
    return ClusterEvent(written["resource"], ActionType(written["action"]), written["label"])


def _in_flight_text(value: str | InFlightEvent) -> str:
    if isinstance(value, str):
        return value
    return f"{value.event.label} {_object_text(value.old)} {_object_text(value.new)}"


def _object_text(item: Pod | Node | None) -> str:
    return "-" if item is None else f"{item.metadata.name}@{item.metadata.resource_version}"


# Plugins (reference_queue/plugins.go).


class _Priority(PrioritySort):
    def __init__(self) -> None:
        pass


class _SortByRank(QueueSort):
    """Has no key, as a user's plugin may."""

    name = "SortByRank"

    def __init__(self) -> None:
        pass

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return first.pod.metadata.labels["rank"] < second.pod.metadata.labels["rank"]


class _Gate(PreEnqueue):
    def __init__(self, name: str, world: _World) -> None:
        self.name = name  # type: ignore[misc]
        self.world = world

    def pre_enqueue(self, pod: Pod) -> Status | None:
        status, chosen = self.status(pod), self.world.gated_by.get(pod_name(pod), self.name)
        if status is None or chosen == self.name:
            return status
        return status if _Gate(chosen, self.world).status(pod) is None else None  # that one is to reject it

    def status(self, pod: Pod) -> Status | None:
        labels = pod.metadata.labels
        if self.name == "Hold" and labels.get("hold") == "error":
            return Status(Code.ERROR, ("failed",))
        if (
            (self.name == "SchedulingGates" and pod.spec.scheduling_gates)
            or (self.name == "Hold" and labels.get("hold") == "true")
            or (self.name == "Quota" and not self.world.quota_is_open and "quota" in labels)
        ):
            return unresolvable(self.name)
        return None


def _hints(config: list[dict[str, Any]]) -> QueueingHints:
    hints: dict[ClusterEvent, list[RegisteredHint]] = {}
    for hint in config:
        hints.setdefault(_event(hint["event"]), []).append(RegisteredHint(hint["plugin"], _asking(hint["rule"])))
    return hints


def _asking(rule: str) -> HintFunction:
    """The hint function of a rule. One that fails counts as QUEUE."""

    def ask(event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        return QueueingHint.QUEUE if _queues(rule, pod, old, new) else QueueingHint.SKIP

    return ask


def _queues(rule: str, pod: Pod, old: PendingPod | Node | None, new: PendingPod | Node | None) -> bool:
    match rule:
        case "queue" | "error":
            return True
        case "gates":
            is_same = isinstance(new, PendingPod) and new.metadata.uid == pod.metadata.uid
            return is_same and not new.spec.scheduling_gates  # type: ignore[union-attr]
        case "same":
            involved = new if new is not None else old
            app = pod.metadata.labels.get("app", "")
            return involved is not None and involved.metadata.labels.get("app", "") == app
        case "changed":
            return old is None or new is None or old.metadata.labels["app"] != new.metadata.labels["app"]
    return False
