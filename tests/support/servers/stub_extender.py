"""Another extender, on a real socket, whose answers a test gives; and a scheduler that asks such extenders."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from extender_service.config.rules import DEFAULT_RULES
from extender_service.config.types import Extender
from extender_service.kube.resources.nodes_with_json import NodeWithJson
from extender_service.kube.types.core import Node
from extender_service.scheduler.extenders.access import posts_to
from extender_service.scheduler.extenders.extender_client import ExtenderClient
from extender_service.scheduler.extenders.extenders import Extenders
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.servers.http_server import Request, Response, http_server

Answer = Callable[[Any], Any]

VERBS = {"filter_verb": "filter", "prioritize_verb": "prioritize", "weight": 1, "node_cache_capable": True}


class StubExtender:
    """Lets all nodes pass unless `answers` has another answer to a verb: a function of the request's arguments.

    `asked` has the verbs and arguments of all requests. While `gate` is closed, no request is answered.
    """

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.url = ""
        self.asked: list[tuple[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.has_arrived = asyncio.Event()

    async def handle(self, request: Request, response: Response) -> None:
        verb, args = request.path.removeprefix("/"), json.loads(request.body)
        self.asked.append((verb, args))
        self.has_arrived.set()
        await self.gate.wait()
        answer = self.answers.get(verb, _agree)(args)
        if isinstance(answer, int):
            await response.send_json(answer, {})
        elif isinstance(answer, bytes):
            await response.send_head(200, {"Content-Length": str(len(answer))})
            await response.send_raw(answer)
        else:
            await response.send_json(200, answer)

    def args(self, verb: str) -> list[Any]:
        """The arguments of all requests of a verb."""
        return [args for asked, args in self.asked if asked == verb]


def _agree(args: Any) -> Any:
    return {"NodeNames": args["NodeNames"], "Nodes": args["Nodes"]} if "NodeNames" in args else None


@asynccontextmanager
async def extended_world(
    *nodes: Node, extenders: list[tuple[StubExtender, Mapping[str, Any]]], **options: Any
) -> AsyncIterator[SchedulerWorld]:
    """A scheduler that asks extenders: each with fields of its configuration, which has VERBS besides."""
    async with AsyncExitStack() as stack:
        made = []
        for stub, fields in extenders:
            stub.url = await stack.enter_async_context(http_server(stub.handle))
            config = Extender(**{"url_prefix": stub.url, **VERBS, **fields})
            made.append((config, await stack.enter_async_context(posts_to(config, "extenders[0]", time.time))))
        yield SchedulerWorld(
            *map(with_json, nodes),
            extenders=lambda table, pod_json: Extenders(
                [ExtenderClient(config, posts, table, pod_json) for config, posts in made],
                options.get("rules", DEFAULT_RULES),
            ),
            **options,
        )


def with_json(node: Node) -> NodeWithJson:
    """The node as the watch shows it where extenders are sent whole nodes."""
    encoded = msgspec.json.encode(node)
    return msgspec.structs.replace(msgspec.json.decode(encoded, type=NodeWithJson), whole_json=encoded)
