"""Lets replicas schedule many pods while everything fails, and judges what came of it."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.e2e.support.objects import Object
from tests.e2e.support.oracle_cases import KINDS, surroundings
from tests.e2e.support.placement_rules import violations
from tests.e2e.support.plugins.decision_recorder import read_decisions
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.waiting import wait_until
from tests.scheduler_faults import population
from tests.scheduler_faults.audit import POLICY, Audit, Term
from tests.scheduler_faults.cluster_changes import ClusterChanges, NodeHistory, pods_being_created
from tests.scheduler_faults.faults import FAULTS, Scene
from tests.scheduler_faults.links import Links
from tests.scheduler_faults.replay import AskOracle, Replay, forgotten_or_imagined
from tests.scheduler_faults.replicas import LEASE, Replicas

Fault = Callable[[Scene], None]

_ALL_BOUND_SECONDS = 180.0
_MOST_LOG_MEGABYTES = 2_000


@dataclass(frozen=True)
class Size:
    """How much: so many hundred nodes, a share of their pods, each fault so many times, and how long pods come then.

    `election` are fields of LeaderElectionConfiguration; a leader that is stopped for `pause_seconds` keeps its lease.
    A standby must lead `leads_within_seconds` after the last renewal, `leads_after_stop_seconds` after a clean stop.
    """

    hundreds: int = 10
    share_of_pods: float = 1.0
    rounds: int = 1
    faults: Sequence[Fault] = FAULTS
    creation_seconds: float = 25.0
    election: Mapping[str, Any] = field(default_factory=dict)
    pause_seconds: float = 5.0
    leads_within_seconds: float = 25.0
    leads_after_stop_seconds: float = 5.0


@dataclass
class Outcome:
    """What is wrong, as texts; what there was, as lines to print; and how many decisions were replayed."""

    complaints: list[str] = field(default_factory=list)
    report: list[str] = field(default_factory=list)
    decisions: int = 0


def run(
    controlplane: Path, directory: Path, ask_oracle: AskOracle, size: Size, seed: int, progress: Callable[[str], None]
) -> Outcome:
    """Run all faults on a control plane of its own, and judge. `controlplane` is the binary."""
    (directory / "policy.yaml").write_text(POLICY)
    log = directory / "audit.log"
    options = [
        f"--audit-policy-file={directory}/policy.yaml",
        f"--audit-log-path={log}",
        f"--audit-log-maxsize={_MOST_LOG_MEGABYTES}",
    ]
    outcome = Outcome()
    with (
        ControlPlane(controlplane, directory, api_server_options=options) as control_plane,
        Links(int(control_plane.url.rpartition(":")[2])) as links,
    ):
        replicas = Replicas(control_plane, links, size.election)
        try:
            judged = _Run(control_plane, replicas, size, seed, outcome, progress)
            judged.let_everything_fail()
        finally:
            replicas.kill()
        progress("judging")
        judged.judge(Audit(log), ask_oracle)
    return outcome


class _Run:
    def __init__(
        self,
        control_plane: ControlPlane,
        replicas: Replicas,
        size: Size,
        seed: int,
        outcome: Outcome,
        progress: Callable[[str], None],
    ) -> None:
        self._control_plane = control_plane
        self._api = control_plane.api
        self._replicas = replicas
        self._size = size
        self._seed = seed
        self._outcome = outcome
        self._progress = progress
        self._history = NodeHistory()
        self._pods: dict[str, Object] = {}
        self._created: list[Object] = []
        self._lost: dict[str, str] = {}
        self._scene = Scene(control_plane, replicas, self._count_bound, size.pause_seconds, {}, outcome.complaints)

    def let_everything_fail(self) -> None:
        """Create the pods in parts, and let a fault happen with each."""
        api, size = self._api, self._size
        nodes = api.create(*population.nodes(size.hundreds))
        for node in nodes:
            self._history.add(node)
        api.create(*population.volumes(size.hundreds))
        faults = [*size.faults] * size.rounds
        pods = population.pods(size.hundreds, self._seed)
        parts = population.in_parts(pods[: round(len(pods) * size.share_of_pods)], len(faults))
        self._scene.add_standby()
        self._replicas.leader()
        self._scene.add_standby()
        names = [node["metadata"]["name"] for node in nodes]
        with ClusterChanges(api, self._history, names, self._seed) as changes:
            for fault, part in zip(faults, parts, strict=True):
                self._let_fail(fault, part)
        wait_until(lambda: not self._waiting(), "all pods to be bound", _ALL_BOUND_SECONDS, 0.5)
        there = {node["metadata"]["name"] for node in api.list_all("Node")}
        changes.collect(lambda node: node not in there)
        self._lost = changes.lost
        self._outcome.report.append(f"nodes: {len(there)} in the end; {changes.counts}; {len(self._lost)} pods lost")
        for replica in self._replicas.all:
            if replica.process.exit_code is None:
                replica.process.stop()

    def _let_fail(self, fault: Fault, pods: Sequence[Object]) -> None:
        began_at = time.monotonic()
        with pods_being_created(self._api, pods, self._size.creation_seconds) as created:
            self._created = created
            self._wait_for_some(len(pods) // 10)
            fault(self._scene)
        self._pods.update({_name(pod): pod for pod in created})
        self._created = []
        seconds = time.monotonic() - began_at
        self._progress(f"{fault.__name__}: {len(created)} pods, {seconds:.0f} s, {len(self._waiting())} wait")

    def judge(self, audit: Audit, ask_oracle: AskOracle) -> None:
        """Judge the cluster by the API server and its audit log, and each decision by the oracle."""
        complain = self._outcome.complaints.extend
        pods, nodes = self._api.list_all("Pod"), self._api.list_all("Node")
        complain(violations(nodes, pods))
        ends = {_name(pod): pod["spec"].get("nodeName", "") for pod in pods} | self._lost
        complain(f"{name} is gone" for name in self._pods.keys() - ends.keys())
        self._outcome.report.append(f"pods: {len(pods)} in the end, of {len(self._pods)}")
        for replica in self._replicas.all:
            complain(replica.complaints())
        complain(self._wrongly_bound(audit, ends))
        terms = audit.terms(LEASE)
        complain(audit.late_writes(terms))
        complain(audit.early_writes(terms, [replica.user for replica in self._replicas.all]))
        complain(self._late_leaders(terms))
        self._replay(ask_oracle, terms, audit, ends)

    def _wrongly_bound(self, audit: Audit, ends: Mapping[str, str]) -> Iterator[str]:
        """Yield the pods that were not bound once, to the node where they are."""
        bound, uncertain = audit.bindings(), audit.uncertain_bindings()
        self._outcome.report.append(f"bindings by status code: {dict(audit.binding_answers())}")
        for name, node in ends.items():
            bindings = bound.get(name, [])
            if len(bindings) > 1:
                yield f"{name} was bound {len(bindings)} times: {bindings}"
            if not bindings and not any(wanted in ("", node) for _, wanted in uncertain.get(name, [])):
                yield f"{name} is on {node}, and no binding says so"
            if bindings and bindings[0][1] != node:
                yield f"{name} is on {node}, and was bound to {bindings[0][1]}"

    def _late_leaders(self, terms: Sequence[Term]) -> Iterator[str]:
        """Yield the terms that began too late after the one before."""
        stopped_at = self._scene.stopped_at
        waits_since = {replica.user: replica.waits_since for replica in self._replicas.all}
        for before, after in pairwise(terms):
            # After the end of all replicas, none waits for the lease at first.
            gap = after.acquired_at - max(before.renewed_at, waits_since[after.user])
            line = f"{after.user} led after {gap.total_seconds():.1f} s without a renewal of {before.user}"
            limit = timedelta(seconds=self._size.leads_within_seconds)
            if before.user in stopped_at:
                since_stop = (after.acquired_at - stopped_at[before.user]).total_seconds()
                line += f", which released it; {since_stop:.1f} s after SIGTERM"
                limit = timedelta(seconds=self._size.leads_after_stop_seconds)
                if not before.released:
                    yield f"{before.user} did not release the lease on SIGTERM"
            self._outcome.report.append(line)
            if gap > limit:
                yield f"{line}: too late"

    def _replay(self, ask_oracle: AskOracle, terms: Sequence[Term], audit: Audit, ends: Mapping[str, str]) -> None:
        around_kinds = {version: [kind for kind in kinds if kind != "Node"] for version, kinds in KINDS.items()}
        around = surroundings(self._api, around_kinds)
        replay = Replay(ask_oracle, self._history, self._pods, around)
        complain = self._outcome.complaints.extend
        before = dict[str, str]()
        bound_by = {name: found[0] for name, found in audit.bindings().items()}
        by_user = {replica.user: replica for replica in self._replicas.all}
        for term in terms:
            file = by_user[term.user].decisions
            own = {name: node for name, (user, node) in bound_by.items() if user == term.user}
            complain(forgotten_or_imagined(file, before, own, ends, self._lost))
            replay.judge(read_decisions(file))
            decided = {decision.pod: decision.node for decision in read_decisions(file) if decision.node}
            complain(
                f"{name} was bound to {node} by {term.user}, which had decided for {decided.get(name)}"
                for name, node in own.items()
                if decided.get(name) != node
            )
            before.update(own)
            in_vain = len(decided) - len(own)
            self._progress(f"replayed {term.user}: {dict(replay.counts)} up to now; {in_vain} pods placed in vain")
        complain(replay.differences)
        self._outcome.decisions = replay.counts.total()
        self._outcome.report.append(f"decisions replayed: {dict(replay.counts)}, {len(replay.differences)} differences")
        self._outcome.report.append(f"filters that rejected nodes, in how many decisions: {dict(replay.rejecting)}")

    def _wait_for_some(self, count: int) -> None:
        enough = self._count_bound() + count
        wait_until(lambda: self._count_bound() > enough, f"{count} pods to be bound", 60, 0.2)

    def _count_bound(self) -> int:
        """Return how many of the pods that were created are bound, as the API server's cache has it."""
        count = len(self._pods) + len(self._created)
        return count - len(self._waiting())

    def _waiting(self) -> list[Object]:
        parameters = {"fieldSelector": "spec.nodeName=", "resourceVersion": "0"}
        items: list[Object] = self._api.request("GET", self._api.path("Pod"), parameters=parameters)["items"]
        return items


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
