"""A cluster for tests of single actors: an API server, and whoever a test lets act in it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from extender_service.config.release import OLDEST_MINOR
from tests.worlds.actors.client import ActorClient
from tests.worlds.api_server.kinds import BY_PATH
from tests.worlds.api_server.messages import Request, Response
from tests.worlds.api_server.server import ApiServer
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.served_model import ServedModel
from tests.worlds.simulation.world import World

Object = dict[str, Any]


class SmallCluster:
    """`ask` asks at once, for the test; actors take their time."""

    def __init__(self, seed: int = 1, minor: int = OLDEST_MINOR) -> None:
        self.world = World(seed)
        clocks = MachineClocks(self.world.timeline)
        self.wall = clocks.wall
        self.model = ApiServer(clocks.wall, self.world.random("api-server"), minor=minor)
        self.server = ServedModel(self.world, self.model, "api-server", "10.0.0.1", clocks)

    def client(self, name: str) -> ActorClient:
        return ActorClient(self.world, [self.server], name)

    def run(self, seconds: float) -> None:
        self.world.run(self.world.timeline.now + seconds)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        headers = {"content-type": "application/strategic-merge-patch+json"}
        encoded = b"" if body is None else msgspec.json.encode(body)
        answer = self.server.ask(Request(method, path, {}, headers, encoded))
        assert isinstance(answer, Response)
        assert answer.status < 300, answer
        return answer.json()

    def all(self, plural: str, group: str = "", version: str = "v1") -> list[Object]:
        return [item.value for item in self.model.etcd.all(BY_PATH[group, version, plural])]

    def names(self, plural: str, group: str = "") -> list[str]:
        return [value["metadata"]["name"] for value in self.all(plural, group)]
