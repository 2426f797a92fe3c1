"""Calls of the extender API, from the body of a request to the body of its answer."""

import asyncio
import itertools
from collections.abc import Iterator
from random import Random
from typing import Literal

import msgspec
from msgspec import structs
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bench import synthetic
from bench.decision import default_engine
from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.app import create_app
from extender_service.extender.modes import Mode
from extender_service.extender.overload.overload import CallLimits, Load
from extender_service.extender.reporting.observation import Verb
from extender_service.extender.service import ExtenderService
from extender_service.kube.types.core import Pod
from tests.counted.bytecodes import executed, finish, typical
from tests.counted.pods import PODS_PER_NODE, numbered, placed

Order = Literal["the same", "a new"]

# After a pod was placed on some of the nodes, a call costs up to a tenth more. With this seed, as with the one that the
# budgets were made with, the median call is not one of those.
_SEED = 80


def call(mode: Mode, verb: Verb, order: Order, nodes: int) -> int:
    """Count a call that names all nodes, in the order in which they came before or in a new one."""
    return typical(_calls(mode, verb, order, nodes))


def call_decided_ahead(nodes: int) -> int:
    """Count a call about one of many pods alike, which has been decided about since the call before."""
    return typical(_calls("replace", "filter", "the same", nodes, alike=True))


def call_with_nominated(nodes: int) -> int:
    """Count a call while on each node a pod is nominated."""
    return typical(_calls("replace", "filter", "the same", nodes, nominates=True))


def _calls(
    mode: Mode, verb: Verb, order: Order, nodes: int, *, alike: bool = False, nominates: bool = False
) -> Iterator[int]:
    cluster = synthetic.cluster(nodes, PODS_PER_NODE)
    if nominates:
        preemptor = synthetic.pending_pod("plain-rs")
        for number, name in enumerate(cluster.node_names()):
            cluster.apply_pod(_nominated(numbered(preemptor, -1 - number), name))
    random = Random(_SEED)
    app = _app(cluster, mode, random)
    waiting = synthetic.pending_pod("plain-rs")
    names = cluster.node_names()
    with asyncio.Runner() as runner:
        for number in itertools.count():
            pod = numbered(waiting, number) if alike else _unlike_others(numbered(waiting, number))
            cluster.apply_pod(pod)
            if order == "a new":
                random.shuffle(names)
            count, answer = runner.run(_call(app, verb, msgspec.json.encode({"Pod": pod, "NodeNames": names})))
            cluster.apply_pod(placed(pod, _first_node(answer)))
            yield count


def _app(cluster: Cluster, mode: Mode, random: Random) -> ASGIApp:
    engine = default_engine(cluster, random)
    return create_app(ExtenderService(engine, mode=mode, is_live=True), lambda _: None, Load(CallLimits()))


async def _call(app: ASGIApp, verb: Verb, body: bytes) -> tuple[int, bytes]:
    scope = {"type": "http", "method": "POST", "path": f"/{verb}"}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    answering = _answer(app, scope, receive, send)
    count = executed(lambda: finish(answering))
    await asyncio.sleep(0)  # what follows an answer
    return count, sent[1]["body"]


async def _answer(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


def _unlike_others(pod: Pod) -> Pod:
    annotations = {"name": pod.metadata.name}
    return structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations))


def _nominated(pod: Pod, node_name: str) -> Pod:
    return structs.replace(pod, status=structs.replace(pod.status, nominated_node_name=node_name))


def _first_node(answer: bytes) -> str:
    found = msgspec.json.decode(answer)
    name = found[0]["Host"] if isinstance(found, list) else found["NodeNames"][0]
    assert isinstance(name, str)
    return name
