"""Worlds to run: a cluster, its pods, and replicas of `schedule`, with faults or without."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec

from extender_service.config.release import OLDEST_MINOR
from tests.worlds.actors.client import ActorClient
from tests.worlds.actors.restarting import RestartingActor
from tests.worlds.actors.rival import NAME as RIVAL
from tests.worlds.actors.rival import Rival
from tests.worlds.api_server.kinds import PODS
from tests.worlds.api_server.messages import Request, Response
from tests.worlds.clusters.draft import draw_counts
from tests.worlds.clusters.inhabitants import Inhabitants
from tests.worlds.faults.kinds import ALL_KINDS
from tests.worlds.faults.plan import FaultKind, Plan, carry_out, draw_plan
from tests.worlds.faults.surroundings import Surroundings
from tests.worlds.invariants.ledger import PLUGIN
from tests.worlds.invariants.programs.leaders import LEASE
from tests.worlds.invariants.what_must_hold import WhatMustHold
from tests.worlds.parts import Parts
from tests.worlds.settings.binding_settings import LEADER_LEASE, PROBES
from tests.worlds.settings.cancelling_extender import CancellingExtender
from tests.worlds.settings.late_caller import LateCaller
from tests.worlds.settings.late_extender import LateExtender
from tests.worlds.settings.odd_extender import OddExtender
from tests.worlds.settings.onlookers import Onlookers
from tests.worlds.settings.other_callers import OtherCaller
from tests.worlds.settings.picky_extender import PickyExtender
from tests.worlds.settings.plugin_moods import let_moods
from tests.worlds.settings.probes import Probes
from tests.worlds.settings.program_settings import ProgramSettings
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.programs import scheduler, service
from tests.worlds.simulation.served_model import ApiServers
from tests.worlds.simulation.world import World

Object = dict[str, Any]
# `preempting` is replace with --preemption=service.
Mode = Literal["beside", "replace", "preempting"]

_API_SERVER = "api-server"
_CONFIGURATIONS = Path(__file__).parent / "settings"
_SERVICE_ADDRESS = "10.0.0.2"  # as these configurations have it
# Pods come during this part of the time, and so do faults; then all must settle.
_BUSY_PART = 0.6
# With others in the cluster, so much time is left to settle, unless a world is shorter than twice that.
_QUIET_MINUTES = 5.0
_PLAIN_COUNTS = (5, 60)


@dataclass(frozen=True)
class Scenario:
    """What is run: one seed has one history. `faults` are a plan to carry out, instead of one by the seed.

    With others, the cluster has machines, controllers, people and more, and objects of many kinds, drawn by seed. So
    are the numbers of nodes and pods if they are None. Without, it has 5 nodes and 60 pods, which nothing runs.

    To shrink one that fails, `without` names parts that are left out, and `until` ends the world at this second.
    """

    seed: int
    minutes: float = 5.0
    replicas: int = 1
    nodes: int | None = None
    pods: int | None = None
    has_others: bool = False
    has_faults: bool = False
    faults: Plan | None = None
    fault_kinds: frozenset[str] = frozenset()  # some of these only, also such as no seed has by itself; else of all
    wanted: frozenset[str] = frozenset()  # SETTINGS of programs; and with others, actors and features of the cluster
    api_servers: int | None = None  # behind one address; by the seed if not given
    minor: int = OLDEST_MINOR  # the API servers' release, 31 for Kubernetes 1.31, whose rules the programs follow
    mode: Mode | None = None  # of `serve`, which the replicas then ask as an extender
    without: frozenset[str] = frozenset()
    until: float | None = None

    @property
    def settings(self) -> frozenset[str]:
        """Return what is wanted, without what makes no sense: in other modes, `serve` binds and reserves anyway."""
        return self.wanted if self.mode == "beside" else self.wanted - {"bindings"}

    @property
    def busy_seconds(self) -> float:
        """Return for how long pods come, and faults."""
        if self.has_others:
            return 60.0 * max(self.minutes - _QUIET_MINUTES, self.minutes * (1.0 - _BUSY_PART))
        return 60.0 * self.minutes * _BUSY_PART

    @property
    def quiet_seconds(self) -> float:
        """Return for how long all may settle then."""
        return 60.0 * self.minutes - self.busy_seconds

    @property
    def service_binds(self) -> bool:
        """Return whether `serve` is asked to bind pods, instead of the replicas."""
        return self.mode in ("replace", "preempting")

    @property
    def wants_pair(self) -> bool:
        """Return whether `serve` is to work only with the scheduler on its machine: so it works for one replica."""
        return LEADER_LEASE in self.wanted and self.service_binds

    @property
    def is_pair(self) -> bool:
        """Return whether `serve` works only while the replica on its machine, the only one, leads."""
        return self.wants_pair and self.replicas == 1

    @property
    def has_rival(self) -> bool:
        """Return whether another pair stands by for the lease of this one."""
        return RIVAL in self.wanted and self.is_pair


class ScheduledCluster:
    """A cluster that replicas of `schedule` schedule. `run` runs it to its end. `faults` is the plan of its faults."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = World(scenario.seed)
        self.parts = Parts(scenario.without)
        self._random = self.world.random("scenario")
        clocks = MachineClocks(self.world.timeline)
        count = scenario.api_servers or self._draw_api_servers()
        self.api_servers = ApiServers(self.world, _API_SERVER, "10.0.0.1", clocks, count, scenario.minor)
        self.model = self.api_servers.model
        self.service: Process | None = None
        self._settings = ProgramSettings(self.world, scenario.settings, scenario.minor)
        base = _CONFIGURATIONS / "counted.yaml"
        if scenario.mode is not None:
            self.service = self._service(base, scenario.mode)
            base = _CONFIGURATIONS / f"extended-{scenario.mode}.yaml"
        self._config = (*PLUGIN, *self._settings.scheduler_arguments(base, binds=not scenario.service_binds))
        self.replicas = [self._replica(number) for number in range(scenario.replicas)]
        self._set_up_others()
        programs = [*self.replicas, *([] if self.service is None else [self.service])]
        self._onlookers = Onlookers(self.world, programs)
        self._probes = Probes(self.world, programs)
        self._surroundings = Surroundings(
            self.world, {each.name: each for each in programs}, self.api_servers, self._has_machine
        )
        self.faults = scenario.faults or ()
        if scenario.has_faults and scenario.faults is None:
            plan = draw_plan(_kinds(scenario.fault_kinds), self._surroundings, scenario.busy_seconds)
            has = self.parts.has
            self.faults = tuple(each for number, each in enumerate(plan) if has(f"fault-{number}", each.until))
        nodes, pods = draw_counts(self.world.random("counts")) if scenario.has_others else _PLAIN_COUNTS
        self._nodes = nodes if scenario.nodes is None else scenario.nodes
        self._pods = pods if scenario.pods is None else scenario.pods
        self.inhabitants = self._inhabitants() if scenario.has_others else None
        servers = list(self.api_servers.servers.values())
        self.holds = WhatMustHold(
            self.world,
            self.model,
            self.replicas,
            self.service,
            servers,
            calm_from=scenario.busy_seconds if self.faults else 0.0,
            service_decides=scenario.mode in ("replace", "preempting"),
            service_preempts=scenario.mode == "preempting",
            is_pair=scenario.is_pair,
            faults=self.faults,
        )

    def run(self) -> None:
        """Run it, from an empty cluster."""
        scenario, timeline = self.scenario, self.world.timeline
        if self.inhabitants is None:
            self._create_plain_objects()
        else:
            self.inhabitants.start()
        if self.service is not None:
            self.service.on_end = partial(self._restart_later, self.service)
            self.service.start()
        for replica in self.replicas:
            replica.on_end = partial(self._restart_later, replica)
            at = self._random.uniform(0.0, 1.0)
            if self.parts.has(replica.name):
                timeline.call_at(at, replica.start)
        if "looks" in scenario.wanted:
            self._onlookers.start()
        if PROBES in scenario.wanted:
            self._probes.start()
        if scenario.has_rival and self.parts.has(f"actor-{RIVAL}"):
            self._start_rival()
        carry_out(self.faults, ALL_KINDS, self._surroundings)
        self.world.run(60.0 * scenario.minutes if scenario.until is None else scenario.until)

    def pods(self) -> list[Object]:
        """Return the pods as they are now."""
        return [item.value for item in self.model.etcd.all(PODS)]

    def problems(self) -> list[str]:
        """Return what did not hold, once all has ended."""
        return self.holds.violations()

    def _draw_api_servers(self) -> int:
        """Draw how many there are: several only where faults can make them differ."""
        return self.world.random("api servers").choice((1, 1, 2, 3)) if self.scenario.has_faults else 1

    def _restart_later(self, program: Process) -> None:
        """Do what the kubelet does."""
        self.world.timeline.call_later(self._random.uniform(1.0, 20.0), program.start)

    def _service(self, base: Path, mode: Mode) -> Process:
        is_pair = self.scenario.is_pair
        words = ("replace", "--preemption", "service") if mode == "preempting" else (mode,)
        lease = ("--leader-lease", LEASE) if is_pair else ()
        settings = self._settings.service_arguments(base, binds=self.scenario.service_binds)
        arguments = ("--mode", *words, *lease, *PLUGIN, *settings)
        host_name = _replica_name(0) if is_pair else None
        url = self.api_servers.url
        return service(self.world, "service", url, _SERVICE_ADDRESS, *arguments, host_name=host_name)

    def _set_up_others(self) -> None:
        """Set up the extenders of other makers, who else asks `serve`, and what users' plugins do."""
        wanted, until = self.scenario.wanted, self.scenario.busy_seconds
        if "odd-extender" in wanted:
            OddExtender(self.world, until)
        if "picky-extender" in wanted:
            PickyExtender(self.world, until)
        if "late-extender" in wanted:
            LateExtender(self.world, until)
        if "cancels" in wanted:
            client = ActorClient(self.world, [*self.api_servers.servers.values()], "quota")
            CancellingExtender(self.world, until, client)
        if "callers" in wanted and self.service is not None:
            preempts = self.scenario.mode != "preempting"
            OtherCaller(self.world, self.model.etcd, _SERVICE_ADDRESS, until, preempts=preempts).start()
        if "late-calls" in wanted and self.service is not None:
            LateCaller(self.world, self.model.etcd, _SERVICE_ADDRESS, until).start()
        has_faults = self.scenario.has_faults or self.scenario.faults is not None
        let_moods(self.world, until, has_faults=has_faults)

    def _start_rival(self) -> None:
        """Start another pair, now and after each restore of etcd."""
        servers, until = [*self.api_servers.servers.values()], self.scenario.busy_seconds

        def begin(client: ActorClient) -> None:
            Rival(client, until).start()

        RestartingActor(self.world, servers, self.model.etcd, RIVAL, begin).start()

    def _replica(self, number: int) -> Process:
        clocks = MachineClocks(
            self.world.timeline,
            uptime=self._random.uniform(100.0, 1e6),
            skew_seconds=self._random.uniform(-30.0, 30.0),
            rate=self._random.uniform(0.999, 1.001),
        )
        elects = "true" if self.scenario.replicas > 1 or self.scenario.is_pair else "false"
        arguments = ("--leader-elect", elects, *self._config)
        return scheduler(self.world, _replica_name(number), self.api_servers.url, *arguments, clocks=clocks)

    def _inhabitants(self) -> Inhabitants:
        return Inhabitants(
            self.world,
            list(self.api_servers.servers.values()),
            self.model,
            self.parts,
            self._nodes,
            self._pods,
            self.scenario.busy_seconds,
            self.scenario.wanted,
        )

    def _has_machine(self, node_name: str) -> bool:
        """Return whether a node can come again: without others in the cluster, each can."""
        return self.inhabitants is None or node_name in self.inhabitants.machines.names

    def _create_plain_objects(self) -> None:
        self._create("priorityclasses", {"metadata": {"name": "high"}, "value": 10})
        for number in range(self._nodes):
            if self.parts.has(f"node-{number}"):
                self._create("nodes", _node(f"node-{number}"))
        for number in range(self._pods):
            at = self._random.uniform(0.0, self.scenario.busy_seconds)
            pod = _pod(f"pod-{number}", self._random)
            if self.parts.has(f"pod-{number}", at):
                self.world.timeline.call_at(at, partial(self._create, "pods", pod))

    def _create(self, plural: str, thing: Object) -> None:
        namespace = "/namespaces/default" if plural == "pods" else ""
        group = "/apis/scheduling.k8s.io/v1" if plural == "priorityclasses" else "/api/v1"
        path = f"{group}{namespace}/{plural}"
        self._ask("POST", path, thing)
        if "status" in thing:
            self._ask("PATCH", f"{path}/{thing['metadata']['name']}/status", {"status": thing["status"]})

    def _ask(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        headers = {
            "content-type": "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        }
        answer = self.api_servers.ask(Request(method, path, {}, headers, msgspec.json.encode(body)))
        assert isinstance(answer, Response)
        assert answer.status < 300, answer
        self.world.trace.write("cluster", f"{method} {path} {body.get('metadata', {}).get('name', '')}")


def _kinds(names: frozenset[str]) -> list[FaultKind]:
    """Return the kinds of faults that may be drawn: those with these names, or all if there are none."""
    return [replace(kind, is_drawn=kind.name in names) if names else kind for kind in ALL_KINDS]


def _replica_name(number: int) -> str:
    return f"replica-{number}"


def _node(name: str) -> Object:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
    }


def _pod(name: str, random: Random) -> Object:
    requests = {"cpu": f"{random.choice((100, 200, 300))}m", "memory": "64Mi"}
    return {
        "metadata": {"name": name, "labels": {"app": f"app-{random.randrange(3)}"}},
        "spec": {
            "schedulerName": "default-scheduler",
            "priorityClassName": random.choice(("", "", "", "high")),
            "containers": [{"name": "main", "image": "image", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Pending"},
    }
