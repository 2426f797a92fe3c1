"""The process in which atheris looks for inputs that reach new code; see covering.py, which starts it.

An input is the number of a verb and a body. Arguments are the command that starts it again, a cluster file, and
libFuzzer's own.
"""

import asyncio
import sys
from collections.abc import MutableMapping
from random import Random
from typing import Any

import atheris

with atheris.instrument_imports(include=["extender_service"]):
    from extender_service.cluster.sources.cluster_file import ClusterFile
    from extender_service.cluster.state.cluster import Cluster
    from extender_service.config.loading import default_config
    from extender_service.extender.app import create_app
    from extender_service.extender.overload.overload import CallLimits, Load
    from extender_service.extender.service import ExtenderService
    from extender_service.framework.handle import Handle
    from extender_service.framework.profiles import Profiles
    from extender_service.framework.registry.registry import Registry
    from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
    from extender_service.scheduling.engine import Engine

import logging
from pathlib import Path

import msgspec

from tests.fuzz.mutation import mutate_json
from tests.fuzz.requests import VERBS

_STRUCTURED_SHARE = 0.7


class Target:
    """A service on a cluster file, called without HTTP."""

    def __init__(self, cluster_file: Path) -> None:
        cluster = Cluster()
        files = ClusterFile(cluster, [cluster_file])
        files.load()
        profiles = Registry(IN_TREE).profiles(default_config(ARGS_TYPES), Handle(cluster, files))
        extender = ExtenderService(Engine(cluster, Profiles(profiles), files), mode="replace", is_live=False)
        self._app = create_app(extender, lambda _: None, Load(CallLimits()))
        self._loop = asyncio.new_event_loop()

    def call(self, data: bytes) -> None:
        """Call a verb."""
        if data:
            self._loop.run_until_complete(self._call(VERBS[data[0] % len(VERBS)], data[1:]))

    async def _call(self, verb: str, body: bytes) -> None:
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            return parts.pop() if parts else await asyncio.get_running_loop().create_future()

        async def send(message: MutableMapping[str, Any]) -> None:
            pass

        scope = {"type": "http", "method": "POST", "path": f"/{verb}", "headers": [], "query_string": b""}
        await self._app(scope, receive, send)
        await asyncio.sleep(0)  # the call is told of in the event loop's next turn


class Complaints(logging.Handler):
    """Raises what is logged as an error: an exception, of the service's own or of a plugin."""

    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError(f"{record.getMessage()}: {record.exc_info}")


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change values within the JSON, or bytes, which atheris knows how to choose."""
    random = Random(seed)
    if data and random.random() < _STRUCTURED_SHARE:
        try:
            args = msgspec.json.decode(data[1:])
            mutated = data[:1] + msgspec.json.encode(mutate_json(random, args, [args]))
        except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
            mutated = b""
        if 0 < len(mutated) <= max_size:
            return mutated
    anything: bytes = atheris.Mutate(data, max_size)
    return anything


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR, handlers=[Complaints()])
    program, cluster_file, *options = sys.argv[1:]
    atheris.Setup([program, *options], Target(Path(cluster_file)).call, custom_mutator=mutate)
    atheris.Fuzz()
