"""Runs the whole scheduler on a cluster in memory until nothing moves any more."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import count
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

import msgspec

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config, parse_config
from extender_service.config.rules import NEWEST_RULES, Rules, rules_of_release
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Plugin
from extender_service.framework.profile import Profile
from extender_service.framework.registry.registry import Registry
from extender_service.framework.runtime import run_pre_enqueue
from extender_service.framework.waiting_pods import WaitingPod
from extender_service.kube.credentials.urls import without_user
from extender_service.kube.parsing.api_defaults import DEFAULT_SCHEDULER_NAME
from extender_service.kube.types.core import Node, Object, Pod, pod_name
from extender_service.kube.types.pending_pods import PendingPodCondition
from extender_service.kube.types.pods import TERMINAL_PHASES, pod_uid
from extender_service.kube.writing.event_recorder import Occurrence
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.queue.backoff_queue import FLUSH_BACKOFF_SECONDS
from extender_service.queue.waiting_queues import BACKOFF
from extender_service.scheduler.assembly import assemble
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.explanation import why_chosen
from extender_service.scheduling.question import Question
from extender_service.simulation.pod_outcome import DELETED, GATED, OTHER_SCHEDULER, PodOutcome
from extender_service.simulation.simulated_time import PluginSleeps, SimulatedTime

log = logging.getLogger(__name__)

# How often other tasks run before plugins count as asleep, or their I/O is awaited with pauses.
_TURNS: Final = 100
_PAUSE_SECONDS: Final = 0.001


class Simulation:
    """A scheduler, to be used as an async context, and its cluster: the objects of `files`, then `objects`.

    - `config`: a KubeSchedulerConfiguration, or the text of one. Without it, the default profile runs with `plugins`
    - `plugins`: classes that `config` can name, besides the in-tree ones
    - `release`: that of Kubernetes to follow, such as 1.34, or its rules with the feature gates that are set
    - `random`: chooses among equal nodes. The default has a fixed seed, so that equal input has equal outcomes
    - `explains`: outcomes say why pods were placed where they are, which takes longer

    Extenders of the configuration are not asked, since they may act on a real cluster: a warning in the log says so.
    Another one names the plugins that could act on something real, since they serve PreBind, Bind or PostBind.
    The constructor raises ManifestError and ConfigError, and ValueError for a release that cannot be followed.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        files: Iterable[Path] = (),
        config: str | KubeSchedulerConfiguration = "",
        plugins: Iterable[type[Plugin]] = (),
        release: str | Rules = NEWEST_RULES,
        random: Random | None = None,
        explains: bool = False,
    ) -> None:
        plugins = list(plugins)
        rules = rules_of_release(release) if isinstance(release, str) else release
        if not isinstance(config, KubeSchedulerConfiguration):
            config = (
                parse_config(config, ARGS_TYPES, rules)
                if config
                else default_config(ARGS_TYPES, rules, plugins=[plugin.name for plugin in plugins])
            )
        if config.extenders:
            urls = ", ".join(without_user(extender.url_prefix) for extender in config.extenders)
            log.warning("extenders are not asked: the plugins alone decide", extra={"extenders": urls})
        self.time = SimulatedTime()
        self.cluster = Cluster(rules)
        self.events: list[Occurrence] = []
        self._why_chosen: dict[str, str] = {}
        self._api = ClusterFile(self.cluster, list(files))
        self._sleeps = PluginSleeps(self.time)
        self._handle = Handle(
            self.cluster,
            self._api,
            clock=self.time,
            sleep=self._sleeps.sleep,
            random=random or Random(0),  # noqa: S311
            simulated=True,
        )
        registry = Registry([*IN_TREE, *plugins], rules=rules)
        registry.check(config)
        self.cluster.show_only(registry.reads(config))
        profiles = registry.profiles(config, self._handle)
        _warn_of_effects(profiles.values(), plugins)
        # Attempts have no time limit: where pods go must not depend on how fast the machine is.
        parts = assemble(
            config,
            profiles,
            self._handle,
            self._api,
            PodLister(),
            self.events.append,
            sleep=self.time.sleep,
            wall_clock=self.time,
            explain=self._note_choice if explains else None,
        )
        self._settled_seconds = config.pod_max_backoff_seconds + 2 * FLUSH_BACKOFF_SECONDS
        self._queue, self._engine, self._scheduler = parts.queue, parts.engine, parts.scheduler
        self._api.handle_with(parts.handlers.handler)
        self._api.load()
        self._asked = {name: pod for pod in self._api.pods if (name := pod_name(pod)) and _is_pending(pod)}
        self.create(*objects)
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start the scheduler."""
        self._running = asyncio.create_task(self._scheduler.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the scheduler; pods that wait in Permit are rejected, and what waits for `handle.sleep` is cancelled."""
        assert self._running is not None
        self._queue.close()
        for waiting in self._handle.waiting_pods:
            waiting.reject("", "the simulation has ended")
        self._running.cancel()
        await asyncio.wait([self._running])
        self._sleeps.end("the simulation has ended")
        await self._scheduler.close()

    def create(self, *objects: Object) -> None:
        """Add or replace objects: nodes, pods, claims, and what else a cluster file may have.

        As by an API server, a pod without a scheduler name is given that of the default profile. Raises TypeError for a
        kind that scheduling does not read.
        """
        for item in objects:
            if isinstance(item, Pod):
                self._create_pod(item)
            else:
                self._api.put(item)

    def _create_pod(self, pod: Pod) -> None:
        if not pod.spec.scheduler_name:
            spec = msgspec.structs.replace(pod.spec, scheduler_name=DEFAULT_SCHEDULER_NAME)
            pod = msgspec.structs.replace(pod, spec=spec)
        if _is_pending(pod):
            self._asked[pod_name(pod)] = pod
        self._api.put(pod)

    def delete(self, *objects: Object) -> None:
        """Delete objects. A deleted pod has no outcome any more."""
        for item in objects:
            self._api.remove(item)
            if isinstance(item, Pod):
                self._asked.pop(pod_name(item), None)

    def refusal(self, pod: Pod, node: Node) -> str:
        """Return why a node that the cluster need not have would not take a pod; empty if it would.

        Runs PreFilter and Filter as if the node were there, without pods of its own. Changes nothing. Raises CycleError
        where a plugin fails, and QuantityError.
        """
        name = node.metadata.name
        if self.cluster.nodes.is_node(name):
            raise ValueError(f"the cluster has a node {name}: give a name of its own to the node to imagine")
        self.cluster.apply_node(node)
        try:
            question = Question(pod, self._engine.nodes.named_once([name]), refuses_unsupported=True)
            decision = self._engine.decide(question)
            return "; ".join(status.message for status, _ in decision.verdicts.groups())
        finally:
            self.cluster.remove_node(name)

    async def settle(self) -> None:
        """Let the scheduler work until nothing changes any more. Time passes at once.

        Then no pod is active or being bound. Those in backoff were tried again since the last change, and those that
        still wait in Permit were rejected by their timeout once since then, and wait again. While a plugin sleeps in a
        binding (`handle.sleep`), time passes until that is over.
        """
        changes, changed_at = self._api.changes, self.time.now
        timed_out: set[str] = set()
        while True:
            await self._quiet()
            if self._api.changes != changes:
                changes, changed_at = self._api.changes, self.time.now
                timed_out.clear()
            backs_off = self._queue.pending_counts()[BACKOFF] and self.time.now - changed_at <= self._settled_seconds
            if backs_off or self._at_work_count:  # what is at work sleeps
                self.time.advance()
            elif (waiting := self._next_timeout(timed_out)) is not None:
                self.time.pass_seconds(waiting.times_out_at - asyncio.get_running_loop().time())
                timed_out.add(pod_uid(waiting.pod))
                waiting.time_out()
                changed_at = self.time.now  # its place is free
            else:
                return

    @property
    def nodes(self) -> list[Node]:
        """The nodes as they are now, in the order in which they came."""
        return self._api.nodes

    @property
    def pods(self) -> list[Pod]:
        """The pods as they are now: with the node that each is bound to, its conditions and its nominated node."""
        return self._api.pods

    def node_of(self, pod: Pod) -> str:
        """Return the node that a pod is bound to; empty for none."""
        found = next((known for known in self.pods if pod_name(known) == pod_name(pod)), None)
        return "" if found is None else found.spec.node_name

    @property
    def asked_count(self) -> int:
        """How many pods were pending when they came."""
        return len(self._asked)

    @property
    def bound_count(self) -> int:
        """How many pods were bound here so far."""
        return sum(event.reason == "Scheduled" for event in self.events)

    def outcomes(self) -> list[PodOutcome]:
        """Return what became of each pod that was pending when it came, in this order."""
        victims: defaultdict[str, list[str]] = defaultdict(list)
        for event in self.events:
            if event.is_deletion and event.related is not None:
                preemptor = f"{event.related.namespace}/{event.related.name}"
                victims[preemptor].append(f"{event.regarding.namespace}/{event.regarding.name}")
        present = {pod_name(pod): pod for pod in self._api.pods}
        return [self._outcome(pod, present.get(name), victims[name]) for name, pod in self._asked.items()]

    def _outcome(self, asked: Pod, pod: Pod | None, victims: list[str]) -> PodOutcome:
        outcome = PodOutcome(asked.metadata.namespace, asked.metadata.name, victims=tuple(victims))
        if pod is None:
            reason, message = DELETED, "preempted by another pod"
        elif pod.spec.node_name:
            why = self._why_chosen.get(pod_uid(pod), "")
            return msgspec.structs.replace(outcome, node=pod.spec.node_name, message=why)
        else:
            reason, message = self._why(pod)
        return msgspec.structs.replace(outcome, reason=reason, message=message)

    def _note_choice(self, decision: Decision, _node_name: str) -> None:
        self._why_chosen[pod_uid(decision.question.pod)] = why_chosen(decision)

    def _why(self, pod: Pod) -> tuple[str, str]:
        """Return the reason for which a pod has no node, and the message."""
        profile = self._engine.profiles.find(pod.spec.scheduler_name)
        if profile is None:
            return OTHER_SCHEDULER, f"no profile has the scheduler name {pod.spec.scheduler_name!r}"
        if pod.metadata.deletion_timestamp:
            return DELETED, "the pod is being deleted"
        gate = run_pre_enqueue(profile, pod)
        if gate is not None:
            return GATED, gate.message
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and isinstance(condition, PendingPodCondition):
                return condition.reason, condition.message
        waiting = self._handle.waiting_pods.get(pod_uid(pod))
        plugins = waiting.pending_plugins if waiting is not None else []
        return "Waiting", f"waits in Permit of {', '.join(plugins)}"

    @property
    def _at_work_count(self) -> int:
        """How many bindings, preemptions and writes are under way, besides the bindings that wait in Permit."""
        return self._scheduler.unfinished_count - len(list(self._waiting()))

    async def _quiet(self) -> None:
        """Return once the scheduler has nothing to do at this time. Raises what it failed with."""
        assert self._running is not None, "a simulation is to be used as a context: async with Simulation(...)"
        for turn in count(1):
            await asyncio.sleep(0 if turn <= _TURNS else _PAUSE_SECONDS)
            if self._running.done():
                self._running.result()
                return
            if self._queue.is_waited_for:
                at_work = self._at_work_count
                # What could go on without time has had its turns: plugins sleep in what is left.
                if not at_work or (turn >= _TURNS and at_work <= len(self._sleeps)):
                    return

    def _waiting(self) -> Iterator[WaitingPod]:
        return (waiting for waiting in self._handle.waiting_pods if waiting.is_waiting)

    def _next_timeout(self, timed_out: set[str]) -> WaitingPod | None:
        waiting = [each for each in self._waiting() if pod_uid(each.pod) not in timed_out]
        return min(waiting, key=lambda each: each.times_out_at, default=None)


def _warn_of_effects(profiles: Iterable[Profile], plugins: Collection[type[Plugin]]) -> None:
    """Log which of a user's plugins could act on something real before or after a binding."""
    binding: Iterable[Plugin] = (
        plugin for profile in profiles for plugin in (*profile.pre_bind, *profile.bind, *profile.post_bind)
    )
    names = dict.fromkeys(plugin.name for plugin in binding if type(plugin) in plugins)
    if names:
        log.warning(
            "plugins run at preBind, bind or postBind as in a cluster: they must do nothing outside of the simulation, "
            "which handle.simulated tells them",
            extra={"plugins": ",".join(names)},
        )


def _is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name and pod.status.phase not in TERMINAL_PHASES
