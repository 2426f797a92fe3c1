"""Whatever callers, the API server, the watch and time do to the service, every pod counts once, where it belongs."""

import asyncio
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from extender_service.cluster.debugging.comparison import compare
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config
from extender_service.extender.app import create_app
from extender_service.extender.expectations import EXPECTED_SECONDS, UNKNOWN_SECONDS
from extender_service.extender.overload.overload import CallLimits, Load
from extender_service.extender.service import ExtenderService
from extender_service.framework.handle import Handle
from extender_service.framework.profiles import Profiles
from extender_service.framework.registry.registry import Registry
from extender_service.kube.types.core import Pod, ResourceList
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.scheduling.confirmations import CONFIRM_SECONDS
from extender_service.scheduling.engine import Engine
from tests.support.binding_plugins import WAIT_SECONDS, Doorman, Errand, Seats
from tests.support.calls import Call, TimedLoop
from tests.support.clock import Clock
from tests.support.from_scratch import matrix_of, ports_of, taken_by
from tests.support.objects import make_node, make_pod
from tests.support.servers.slow_api_server import FAULTS, SlowApiServer

NODES = ("a", "b", "c")
# What Permit and PreBind do with a pod goes by its name.
PODS = ("web-0", "web-1", "waits", "prepares")
GPU = "nvidia.com/gpu"
LATE_SECONDS = 0.06  # more than a second look takes

Amounts = dict[str, int]

node_names = st.sampled_from(NODES)
pod_names = st.sampled_from(PODS)
some_nodes = st.just(list(NODES)) | st.lists(node_names, unique=True, min_size=1)
node_amounts = st.fixed_dictionaries(
    {"cpu": st.integers(1, 4), "pods": st.just(110)}, optional={"memory": st.just(8 * 10**9), GPU: st.integers(0, 2)}
)
pod_amounts = st.fixed_dictionaries(
    {}, optional={"cpu": st.integers(0, 2), "memory": st.just(10**9), GPU: st.integers(0, 1)}
)
port_sets = st.sampled_from([(), (), (80,), (53, 80)])
# Most of what goes wrong needs a caller to go on from what was answered.
mostly = st.sampled_from([True, True, True, False])


class ServiceHistories(RuleBasedStateMachine):
    """A service in `replace` mode, in the hands of callers and an API server that do what they want."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.loop = TimedLoop(self.clock)
        self.complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        self.cluster = Cluster()
        self.api = SlowApiServer(self.cluster, self.pod_is_gone)
        handle = Handle(self.cluster, self.api, clock=self.clock)
        self.profiles = Registry(IN_TREE).profiles(default_config(ARGS_TYPES), handle)
        (self.profile,) = self.profiles.values()
        self.profile.random = Random(0)  # it chooses among the best nodes, and hypothesis repeats histories
        self.seats = Seats(None, handle)
        self.profile.reserve += (self.seats,)
        self.profile.permit += (Doorman(None, handle),)
        self.profile.pre_bind += (Errand(None, handle),)
        engine = Engine(self.cluster, Profiles(self.profiles), self.api)
        self.extender = ExtenderService(engine, mode="replace", is_live=True, clock=self.clock)
        self.app = create_app(self.extender, lambda _: None, Load(CallLimits()))
        self.calls: list[Call] = []
        self.callers: list[asyncio.Task[None]] = []
        self.pods: list[Pod] = []  # all that there ever were, as they were made
        self.answered: dict[str, str] = {}  # where callers were last told to go, by UID
        self.binding: dict[str, str] = {}  # what callers wait for and counted when they began, by UID

    @initialize(offered=st.lists(node_amounts, min_size=2, max_size=3), taken=st.lists(pod_amounts, max_size=len(PODS)))
    def cluster_has_nodes_and_pods(self, offered: list[Amounts], taken: list[Amounts]) -> None:
        for name, amounts in zip(NODES, offered, strict=False):
            self.node_changes(name, amounts)
        for name, amounts in zip(PODS, taken, strict=False):
            self.pod_is_created(name, amounts, ())
        self.api.watched_nodes.relist()
        self.api.watched_pods.relist()

    # What happens to nodes and pods, some time before the watch shows it.

    @rule(name=node_names, amounts=st.none() | node_amounts)
    def node_changes(self, name: str, amounts: Amounts | None) -> None:
        if amounts is None:
            self.api.watched_nodes.delete(name)
        else:
            self.api.watched_nodes.put(make_node(name, quantities(amounts)))

    @rule(name=pod_names, amounts=pod_amounts, ports=port_sets)
    def pod_is_created(self, name: str, amounts: Amounts, ports: tuple[int, ...]) -> None:
        if self.api.pod(name) is None:
            pod = make_pod(name, uid=f"{name} {len(self.pods)}", requests=quantities(amounts), ports=ports)
            self.pods.append(pod)
            self.api.watched_pods.put(pod)

    @rule(name=pod_names, amounts=pod_amounts)
    def pod_is_resized(self, name: str, amounts: Amounts) -> None:
        pod = self.api.watched_pods.objects.get(name)
        if pod is not None:
            resized = make_pod(name, pod.spec.node_name, uid=pod.metadata.uid, requests=quantities(amounts))
            self.api.watched_pods.put(resized)

    @rule(name=pod_names, ends=st.booleans())
    def pod_goes(self, name: str, ends: bool) -> None:
        if ends:
            self.api.end(name)
        else:
            self.api.delete(name)

    @rule(name=pod_names, node_name=node_names)
    def somebody_else_binds_a_pod(self, name: str, node_name: str) -> None:
        pod = self.api.watched_pods.objects.get(name)
        if pod is not None and not pod.spec.node_name:
            self.api.bind_to(pod, node_name)

    # What callers do.

    @rule(name=pod_names, asked=some_nodes)
    def pod_is_scheduled(self, name: str, asked: list[str]) -> None:
        pod = self.api.watched_pods.objects.get(name)
        if pod is not None and not pod.spec.node_name:
            self.answered.pop(pod.metadata.uid, None)
            self.call_filter(pod, asked, is_heard=True)
            if pod.metadata.uid in self.answered:
                self.call_bind(pod, pod.metadata.uid, self.answered[pod.metadata.uid])

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), asked=some_nodes, is_heard=mostly)
    def filter_is_called(self, data: st.DataObject, asked: list[str], is_heard: bool) -> None:
        self.call_filter(data.draw(st.sampled_from(self.pods[-6:])), asked, is_heard=is_heard)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), goes_on=mostly, node_name=node_names, is_right=mostly)
    def bind_is_called(self, data: st.DataObject, goes_on: bool, node_name: str, is_right: bool) -> None:
        pod = data.draw(st.sampled_from(self.pods[-6:]))
        uid = pod.metadata.uid
        self.call_bind(pod, uid if is_right else "another", self.answered.get(uid, node_name) if goes_on else node_name)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def caller_hangs_up(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.calls)).hang_up()
        self.run()

    # What the API server answers, and when.

    @precondition(lambda self: self.api.requests)
    @rule(data=st.data())
    def request_is_served(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.api.requests)).serve()

    @precondition(lambda self: self.api.requests)
    @rule(data=st.data())
    def request_is_answered(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.api.requests)).answer()
        self.run()

    @precondition(lambda self: self.api.requests)
    @rule(data=st.data(), why=st.sampled_from(sorted(FAULTS)))
    def request_fails(self, data: st.DataObject, why: str) -> None:
        data.draw(st.sampled_from(self.api.requests)).fail(FAULTS[why])
        self.run()

    @rule(nodes=st.integers(0, 2), pods=st.integers(0, 3))
    def watch_shows(self, nodes: int, pods: int) -> None:
        self.api.watched_nodes.show(nodes)
        self.api.watched_pods.show(pods)
        self.run()

    @rule(watched=st.sampled_from(["nodes", "pods"]))
    def all_is_listed_again(self, watched: str) -> None:
        (self.api.watched_nodes if watched == "nodes" else self.api.watched_pods).relist()
        self.run()

    @precondition(lambda self: len(self.profile.waiting_pods) > 0)
    @rule(data=st.data(), allows=mostly)
    def doorman_decides(self, data: st.DataObject, allows: bool) -> None:
        waiting = data.draw(st.sampled_from(list(self.profile.waiting_pods)))
        if allows:
            waiting.allow(Doorman.name)
        else:
            waiting.reject(Doorman.name, "not today")
        self.run()

    @rule(seconds=st.sampled_from([LATE_SECONDS, UNKNOWN_SECONDS, WAIT_SECONDS, CONFIRM_SECONDS, EXPECTED_SECONDS]))
    def time_passes(self, seconds: float) -> None:
        self.clock.pass_seconds(seconds)
        self.extender.expectations.expire()
        self.run()

    # What must hold then.

    @invariant()
    def every_column_is_what_the_pods_add_up_to(self) -> None:
        on_node: dict[str, list[Pod]] = {name: [] for name in self.cluster.nodes.row_of}
        for pod, node_name in self.counting():
            on_node[node_name].append(pod)
        table = self.cluster.nodes
        taken = {name: taken_by(pods) for name, pods in on_node.items()}
        assert np.array_equal(table.requested, matrix_of(table, taken))
        for name, row in table.row_of.items():
            assert table.port_sets.values[int(table.port_set[row])] == ports_of(on_node[name])
        assert len(self.cluster.pods) == len(self.api.watched_pods.shown) + len(self.cluster.placements)

    @invariant()
    def no_pod_counts_twice(self) -> None:
        counting = [pod.metadata.uid for pod, _ in self.counting()]
        assert len(counting) == len(set(counting))

    @invariant()
    def pods_that_the_service_has_bound_count(self) -> None:
        """From the moment that the API server has the binding, and until it has not."""
        counting = {(pod.metadata.uid, node_name) for pod, node_name in self.counting()}
        for pod in self.api.watched_pods.objects.values():
            if pod.metadata.uid in self.api.bound_by_service:
                assert (pod.metadata.uid, pod.spec.node_name) in counting

    @invariant()
    def what_is_being_bound_goes_on_to_count(self) -> None:
        """As long as it can be bound: its room is not given away while the caller waits."""
        counting = {(pod.metadata.uid, node_name) for pod, node_name in self.counting()}
        for pod in self.api.watched_pods.objects.values():
            node_name = self.binding.get(pod.metadata.uid)
            assert node_name is None or pod.spec.node_name or (pod.metadata.uid, node_name) in counting

    @invariant()
    def only_what_somebody_was_told_is_expected(self) -> None:
        for placement in self.cluster.placements:
            assert placement.assumed or self.answered.get(placement.uid) == placement.node_name

    @invariant()
    def reserve_and_unreserve_are_balanced(self) -> None:
        placed = {(placement.uid, placement.node_name) for placement in self.cluster.placements}
        shown = [pod for pod in self.api.watched_pods.shown.values() if pod.spec.node_name]
        bound = {(pod.metadata.uid, pod.spec.node_name) for pod in shown}
        # Not those that were deleted since: the service may have read that, and given the place back, before its watch
        # shows even the binding.
        there = {pod.metadata.uid for pod in self.api.watched_pods.objects.values()}
        bound_here = {(uid, node_name) for uid, node_name in bound if uid in self.api.bound_by_service & there}
        # Unreserve does not follow PostBind: where the service reads that a pod has gone, its watch tells the plugin.
        # A caller whose watch has not may ask about that pod again.
        bound_and_gone = self.api.bound_by_service - there
        kept = {(uid, node_name) for uid, node_name in self.seats.taken if uid in bound_and_gone}
        assert placed | bound_here <= self.seats.taken <= placed | bound | kept
        assert self.seats.given_two <= bound_and_gone

    def teardown(self) -> None:
        try:
            self.everything_settles()
            self.only_the_facts_remain()
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_idle()
            self.loop.close()

    def everything_settles(self) -> None:
        """The API server answers, the watch shows all, and time passes: for some things more than once."""
        for _ in range(6):
            while self.api.requests:
                self.api.requests[0].answer()
                self.run()
            self.api.watched_nodes.show()
            self.api.watched_pods.show()
            self.time_passes(CONFIRM_SECONDS)
        self.time_passes(EXPECTED_SECONDS)

    def only_the_facts_remain(self) -> None:
        assert asyncio.all_tasks(self.loop) == set()
        assert (self.calls, self.api.requests, self.complaints) == ([], [], [])
        assert (len(self.cluster.placements), len(self.profile.waiting_pods)) == (0, 0)
        self.every_column_is_what_the_pods_add_up_to()
        self.reserve_and_unreserve_are_balanced()
        listed = Cluster()
        for node in self.api.watched_nodes.objects.values():
            listed.apply_node(node)
        for pod in self.api.watched_pods.objects.values():
            listed.apply_pod(pod)
        assert compare(self.cluster, listed).lines() == []

    # Who counts, who asks, and what they hear.

    def counting(self) -> Iterator[tuple[Pod, str]]:
        """Pods on nodes: the facts that the watch has shown, and the placements."""
        for pod in self.api.watched_pods.shown.values():
            if pod.spec.node_name:
                yield pod, pod.spec.node_name
        for placement in self.cluster.placements:
            yield placement.pod, placement.node_name

    def pod_is_gone(self, pod: Pod) -> None:
        self.seats.forget(pod)

    def is_shown_bound(self, uid: str) -> bool:
        return any(pod.metadata.uid == uid and pod.spec.node_name for pod in self.api.watched_pods.shown.values())

    def run(self, caller: Coroutine[Any, Any, None] | None = None) -> None:
        """Let everything go as far as it gets, with a new caller if there is one."""
        if caller is not None:
            self.callers.append(self.loop.create_task(caller))
        self.loop.run_until_idle()
        for task in [task for task in self.callers if task.done()]:
            self.callers.remove(task)
            task.result()

    def call_filter(self, pod: Pod, asked: list[str], *, is_heard: bool) -> None:
        call = Call(self.app, "filter", {"Pod": pod, "NodeNames": asked})
        if not is_heard:
            call.hang_up()
        self.run(self.hear_of_filter(call, pod.metadata.uid))

    async def hear_of_filter(self, call: Call, uid: str) -> None:
        self.calls.append(call)
        answer = await call.answer()
        self.calls.remove(call)
        if not call.is_heard or answer["Error"] or len(answer["NodeNames"]) != 1:
            return
        (self.answered[uid],) = answer["NodeNames"]
        where = [node_name for pod, node_name in self.counting() if pod.metadata.uid == uid]
        # A pod that is bound is not expected anywhere else.
        assert where == [self.answered[uid]] or self.is_shown_bound(uid)

    def call_bind(self, pod: Pod, uid: str, node_name: str) -> None:
        args = {"PodName": pod.metadata.name, "PodNamespace": "default", "PodUID": uid, "Node": node_name}
        self.run(self.hear_of_bind(Call(self.app, "bind", args), uid, node_name))

    async def hear_of_bind(self, call: Call, uid: str, node_name: str) -> None:
        self.calls.append(call)
        placement = self.cluster.placements.get(uid)
        if placement is not None and placement.node_name == node_name:
            self.binding[uid] = node_name
        answer = await call.answer()
        self.calls.remove(call)
        self.binding.pop(uid, None)
        assert answer["Error"] or self.api.bound.get(uid) == node_name


def quantities(amounts: Amounts) -> ResourceList:
    return {resource: str(amount) for resource, amount in amounts.items()}


ServiceHistories.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
test_any_history = ServiceHistories.TestCase
