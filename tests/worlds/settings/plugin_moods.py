"""What users' plugins have in common that are odd at times: until when they are, and by which chance."""

from random import Random
from typing import Final
from weakref import WeakKeyDictionary

from tests.worlds.simulation.network import Network
from tests.worlds.simulation.simulated_loop import running_loop
from tests.worlds.simulation.world import World

# What they say of themselves in logs: a world may have these lines, and no others of plugins that fail.
BAD_MOOD: Final = "a bad mood"


class Moods:
    """When users' plugins may be odd, in all processes of a world: until a time. What they do then is by chance."""

    def __init__(self, world: World, until: float, *, has_faults: bool) -> None:
        self.has_faults = has_faults
        self._world = world
        self._until = until

    def random(self, who: str) -> Random:
        """Return the source of a plugin in a process that starts now."""
        return self._world.random(f"{who} from {self._world.timeline.now}")

    def random_of_all(self, what: str) -> Random:
        """Return a source for what is the same in all processes."""
        return self._world.random(what)

    @property
    def are_over(self) -> bool:
        """Whether the plugins do only what is right from now on."""
        return self._world.timeline.now >= self._until


_moods: WeakKeyDictionary[Network, Moods] = WeakKeyDictionary()


def let_moods(world: World, until: float, *, has_faults: bool) -> None:
    """Let the plugins of a world have moods until a time. `has_faults` says whether it has faults, too."""
    _moods[world.network] = Moods(world, until, has_faults=has_faults)


def moods_here() -> tuple[Moods, str]:
    """Return the moods of the running world, and the name of the running program."""
    loop = running_loop()
    return _moods[loop.network], loop.name
