"""All extenders of a configuration: those that are ignorable come last, and are forgiven (buildExtenders)."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.framework.status import Code, Status
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.extender_api import ExtenderFilterResult, MetaVictims
from extender_service.scheduler.extenders.extender_client import (
    ExtenderClient,
    ExtenderError,
    ProposedVictims,
    as_int64,
)
from extender_service.scheduling.eviction import Victim, victim_in

log = logging.getLogger(__name__)

Statuses = dict[str, Status]
"""Why extenders refuse nodes, by name."""


class Extenders:
    """The extenders, in the order in which they are asked."""

    def __init__(self, clients: Iterable[ExtenderClient], rules: Rules = DEFAULT_RULES) -> None:
        self._joins_reasons = not rules.last_refusal_counts
        self._clients = sorted(clients, key=lambda client: client.config.ignorable)
        self.filter_any = any(client.config.filter_verb for client in self._clients)
        self.score_any = any(client.config.prioritize_verb for client in self._clients)
        self._binding_count = 0
        self._is_finishing = False
        self._all_answered = asyncio.Event()

    def __len__(self) -> int:
        return len(self._clients)

    def are_interested(self, pod: Pod) -> bool:
        """Return whether one of them has a say about where a pod goes."""
        return any(client.is_interested(pod) for client in self._clients)

    async def filter(self, pod: Pod, names: Sequence[str], statuses: Statuses) -> list[str]:
        """Return the nodes that pass all extenders, which are asked one after another about those that are left.

        Adds why others do not pass to `statuses` (findNodesThatPassExtenders). Raises ExtenderError.
        """
        left = list(names)
        for client in self._interested(pod):
            if not left:
                break
            if not client.config.filter_verb:
                continue
            try:
                result = await client.filter(pod, left)
            except ExtenderError as error:
                _forgive(client, pod, "filter", error)
                continue
            self._note(client, pod, left, result, statuses)
            left = result.node_names or []
        return left

    async def priorities(self, pod: Pod, names: Sequence[str]) -> NDArray[np.int64]:
        """Return what all extenders, asked at once, add to the scores of nodes. Those that fail add nothing."""
        asked = [client for client in self._interested(pod) if client.config.prioritize_verb]
        answers = await asyncio.gather(*(_priorities(client, pod, names) for client in asked))
        return np.array([as_int64(sum(answer.get(name, 0) for answer in answers)) for name in names], np.int64)

    async def preempt(
        self, pod: Pod, victims: Mapping[str, ProposedVictims], cluster: Cluster
    ) -> Mapping[str, ProposedVictims]:
        """Return the nodes, with victims, that all extenders agree on (callExtenders). They are asked one by one.

        Raises ExtenderError.
        """
        for client in self._interested(pod):
            if not victims:
                break
            if not client.config.preempt_verb:
                continue
            try:
                answer = await client.preempt(pod, victims)
                victims = _found(client, cluster, answer, victims)
            except ExtenderError as error:
                _forgive(client, pod, "preempt", error)
        return victims

    def may_preempt(self, pod: Pod) -> bool:
        """Return whether one of them is to be asked about victims."""
        return any(client.config.preempt_verb for client in self._interested(pod))

    async def bind(self, pod: Pod, node_name: str) -> bool:
        """Let the extender that binds such a pod do so; returns whether there is one (extendersBinding).

        Raises ExtenderError: then the pod may be bound all the same.
        """
        for client in self._interested(pod):
            if not client.config.bind_verb:
                continue
            if self._is_finishing:
                await asyncio.Future()  # nothing would wait for the answer
            self._binding_count += 1
            self._all_answered.clear()
            try:
                await client.bind(pod, node_name)
            except ExtenderError as error:
                _forgive(client, pod, "bind", error)
            else:
                return True
            finally:
                self._binding_count -= 1
                if not self._binding_count:
                    self._all_answered.set()
        return False

    async def finish_bindings(self) -> None:
        """Ask for no more bindings, and return once all that extenders were asked for are answered."""
        self._is_finishing = True
        while self._binding_count:
            await self._all_answered.wait()

    def _note(
        self,
        client: ExtenderClient,
        pod: Pod,
        asked: Sequence[str],
        result: ExtenderFilterResult,
        statuses: Statuses,
    ) -> None:
        """Note the reasons of an extender, except for nodes that it was not asked about."""
        unresolvable = result.failed_and_unresolvable_nodes
        known = set(asked)
        strangers = [name for name in (*unresolvable, *result.failed_nodes) if name not in known]
        if strangers:
            extra = {"extender": client.name, "pod": pod_name(pod), "nodes": len(strangers), "first": strangers[0]}
            log.warning("an extender gives reasons for nodes that it was not asked about", extra=extra)
        earlier = statuses if self._joins_reasons else {}
        for name in known & unresolvable.keys():
            reasons = earlier[name].reasons if name in earlier else ()
            statuses[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (*reasons, unresolvable[name]))
        for name in known & result.failed_nodes.keys() - unresolvable.keys():
            old = earlier.get(name, Status(Code.UNSCHEDULABLE))
            statuses[name] = Status(old.code, (*old.reasons, result.failed_nodes[name]))

    def _interested(self, pod: Pod) -> list[ExtenderClient]:
        return [client for client in self._clients if client.is_interested(pod)]


NO_EXTENDERS: Final = Extenders(())


def _forgive(client: ExtenderClient, pod: Pod, verb: str, error: ExtenderError) -> None:
    if not client.config.ignorable:
        raise error
    extra = {"extender": client.name, "verb": verb, "pod": pod_name(pod), "error": str(error)}
    log.info("an extender that is ignorable failed, and is skipped", extra=extra)


async def _priorities(client: ExtenderClient, pod: Pod, names: Sequence[str]) -> Mapping[str, int]:
    try:
        return await client.prioritize(pod, names)
    except ExtenderError as error:
        extra = {"extender": client.name, "pod": pod_name(pod), "error": str(error)}
        log.info("an extender failed to score nodes, and adds nothing to their scores", extra=extra)
        return {}


def _found(
    client: ExtenderClient,
    cluster: Cluster,
    answer: Mapping[str, MetaVictims],
    proposed: Mapping[str, ProposedVictims],
) -> dict[str, ProposedVictims]:
    """Find the victims of an answer (convertToVictims). Raises ExtenderError."""
    found: dict[str, ProposedVictims] = {}
    for name, victims in answer.items():
        if not cluster.nodes.is_node(name):
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        known = {pod.uid: pod for pod in proposed[name].pods} if name in proposed else {}
        pods = []
        for uid in dict.fromkeys(pod.uid for pod in victims.pods):
            pod = known.get(uid) or _on(cluster, name, uid)
            if pod is None:
                raise ExtenderError(
                    f"extender: {client.name} claims to preempt pod (UID: {uid}) on node: {name}, "
                    "but the pod is not found on that node"
                )
            pods.append(pod)
        found[name] = ProposedVictims(tuple(pods), victims.num_pdb_violations)
    empty = [name for name, victims in found.items() if not victims.pods]
    for name in empty:
        if not client.config.ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{name}"')
        del found[name]
    return found


def _on(cluster: Cluster, node_name: str, uid: str) -> Victim | None:
    slot = cluster.slot_on(uid, node_name)
    return None if slot is None else victim_in(cluster, slot)
