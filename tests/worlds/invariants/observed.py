"""What an invariant is, what it is given of a world, and where it reports what broke it."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from extender_service.config.rules import Rules, rules_of
from tests.worlds.api_server.server import ApiServer
from tests.worlds.faults.plan import Plan
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.served_model import ServedModel
from tests.worlds.simulation.world import World

# More violations of one invariant are counted, not named: the first ones show what happened.
_MOST_NAMED = 10


class Always(Protocol):
    """A rule that holds at any time; its docstring is the rule. It watches the world that it was made with."""

    name: str

    def at_end(self) -> None:
        """Report what is only known once the world has ended."""


class InTheEnd(Protocol):
    """A rule that holds once faults are over and all had time to settle; its docstring is the rule."""

    name: str

    def problems(self, observed: "Observed") -> Iterator[str]:
        """Yield what breaks it now."""


class Lasting:
    """What was there at each look of a rule of the end, so far.

    A world goes on between looks: what is there at one and not at the next has ended in time.
    """

    def __init__(self) -> None:
        self._things: set[Hashable] | None = None

    def of(self, found: Iterable[tuple[Hashable, str]]) -> Iterator[str]:
        """Take what a look has found, each thing with its text, and yield the texts of those found at all looks."""
        texts = dict(found)
        self._things = {*texts} if self._things is None else self._things & texts.keys()
        yield from (text for thing, text in texts.items() if thing in self._things)


@dataclass(frozen=True)
class Observed:
    """A world before it runs, and its parts.

    `replicas` are the schedulers, `service` is `serve` if it runs, `api_servers` are what they ask. `faults` are all
    that happen; from `calm_from` on, in the world's time, there are none. With `service_decides`, the schedulers
    themselves look at nothing except amounts, and with `service_preempts` not at these either. With `is_pair`, `serve`
    works only while the scheduler on its machine leads, which its `host_name` says.
    """

    world: World
    model: ApiServer
    replicas: Sequence[Process]
    service: Process | None = None
    api_servers: Sequence[ServedModel] = ()
    calm_from: float = 0.0
    service_decides: bool = False
    service_preempts: bool = False
    is_pair: bool = False
    faults: Plan = ()
    violations: "Violations" = field(default_factory=lambda: Violations())

    @property
    def programs(self) -> Sequence[Process]:
        """All programs of the product."""
        return self.replicas if self.service is None else (*self.replicas, self.service)

    @property
    def rules(self) -> Rules:
        """The rules of the API server's release."""
        return rules_of(self.model.minor)

    @property
    def now(self) -> float:
        """The world's time."""
        return self.world.timeline.now

    def listen(self, listener: Callable[[Served], None]) -> None:
        """Have something called after each request of a program."""
        for api_server in self.api_servers:
            api_server.listeners.append(listener)

    def violated(self, rule: Always | InTheEnd, what: str, *, at: str = "") -> None:
        """Report a violation, at the world's present time unless another is given."""
        self.violations.add(rule.name, f"{at or format(self.now, '.6f')} {rule.name}: {what}")


class Violations:
    """What was violated: lines in plain words, in order, a bounded number for each invariant.

    `on_first` is called before the first one is taken note of.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._counts: dict[str, int] = {}
        self.on_first: Callable[[], object] = lambda: None

    def add(self, name: str, line: str) -> None:
        """Take note of one."""
        if not self._counts:
            self.on_first()
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._counts[name] <= _MOST_NAMED:
            self._lines.append(line)

    def lines(self) -> list[str]:
        """Return all, and how many more of an invariant there were."""
        more = {name: count - _MOST_NAMED for name, count in self._counts.items() if count > _MOST_NAMED}
        return [*self._lines, *(f"{name}: {count} more" for name, count in more.items())]
