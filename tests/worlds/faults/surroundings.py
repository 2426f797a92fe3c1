"""What faults may hit in a world."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.worlds.api_server.kinds import LEASES

if TYPE_CHECKING:
    from tests.worlds.simulation.process import Process
    from tests.worlds.simulation.served_model import ApiServers, ServedModel
    from tests.worlds.simulation.world import World

# A target: whichever replica holds the lease when the fault happens.
LEADER: Final = "leader"
# The name of `serve`, which replicas of `schedule` call.
SERVICE: Final = "service"


@dataclass(frozen=True)
class Surroundings:
    """The parts of a world that faults may hit.

    - `programs`: the product's, by name: replicas, and the service
    - `has_machine`: returns whether there is a machine for a node of this name, so that the node can come again
    """

    world: "World"
    programs: Mapping[str, "Process"]
    api_servers: "ApiServers"
    has_machine: Callable[[str], bool] = lambda _: True
    _held: dict[tuple[str, ...], int] = field(default_factory=dict)

    def program_targets(self) -> Sequence[str]:
        """Return the names of the programs, and the leader."""
        return [*self.programs, *([LEADER] if len(self._replicas()) > 1 else [])]

    def server_targets(self) -> Sequence[str]:
        """Return the names of the API servers."""
        return list(self.api_servers.servers)

    def link_targets(self) -> Sequence[str]:
        """Return the links between two hosts, the client's name first: `replica-0/api-server`."""
        links = [f"{program}/{server}" for program in self.program_targets() for server in self.server_targets()]
        return links + [f"{name}/{SERVICE}" for name in self._replicas() if SERVICE in self.programs]

    def program(self, target: str) -> "Process":
        """Return a program by its name. The leader is the one that holds the lease now, or held it last."""
        if target != LEADER:
            return self.programs[target]
        for lease in self.api_servers.model.etcd.all(LEASES):
            holder = (lease.value["spec"].get("holderIdentity") or "").partition("_")[0]
            if holder in self.programs:
                return self.programs[holder]
        return self.programs[self._replicas()[0]]

    def server(self, target: str) -> "ServedModel":
        """Return an API server by its name."""
        return self.api_servers.servers[target]

    def link(self, target: str) -> tuple[str, str]:
        """Return the names of a link's hosts, the client's first."""
        client, _, server = target.partition("/")
        return self.program(client).name, server

    def share(self, *what: str, begin: Callable[[], None], end: Callable[[], None]) -> Callable[[], None]:
        """Begin something, unless another fault has; return what ends it, once all have ended that began it."""
        self._held[what] = self._held.get(what, 0) + 1
        if self._held[what] == 1:
            begin()

        def release() -> None:
            self._held[what] -= 1
            if self._held[what] == 0:
                end()

        return release

    def _replicas(self) -> list[str]:
        return [name for name in self.programs if name != SERVICE]
