"""Play scripts on the model and on a real API server, and shorten those on which they differ."""

import itertools
import ssl
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tests.worlds.model_check.canonical import difference
from tests.worlds.model_check.generator import generate
from tests.worlds.model_check.players import ModelServer, RealServer, play
from tests.worlds.model_check.script import Script

# Scripts that run at a time: each waits for the API server for most of its time.
_AT_ONCE = 8


@dataclass(frozen=True)
class Difference:
    """A script on which the model differs at its last step, with what the API server and the model answered."""

    script: Script
    expected: str
    found: str

    def __str__(self) -> str:
        steps = "\n".join(step.describe() for step in self.script.steps)
        return f"seed {self.script.seed}\n{steps}\n--- API server\n{self.expected}\n--- model\n{self.found}"


class Comparison:
    """Compares the model of a release with a real API server of that release."""

    def __init__(self, url: str, authority: str, token: str, minor: int) -> None:
        """`authority` is PEM text."""
        tls = ssl.create_default_context(cadata=authority)
        self._connect: Callable[[bool], RealServer] = lambda is_paced: RealServer(url, tls, token, is_paced=is_paced)
        self._minor = minor
        self._runs = itertools.count(1)

    def run(self, seeds: Iterable[int]) -> Iterator[Difference | None]:
        """Yield for each seed the difference that its script shows, whole, in the order of the seeds."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from pool.map(lambda seed: self.compare(generate(seed, self._minor)), seeds)

    def compare(self, script: Script) -> Difference | None:
        """Return how the two differ on a script, None if they do not.

        What the API server stores can depend on whether two writes of a pod came in the same second. On the model they
        never do, so a difference counts only if it is there at that pace, too.
        """
        found = self._compare(script, is_paced=False)
        return None if found is None else self._compare(script, is_paced=True)

    def _compare(self, script: Script, *, is_paced: bool) -> Difference | None:
        # A namespace is used once: what a script leaves behind would meet the next one.
        own = replace(script, run=next(self._runs))
        try:
            model = play(own, ModelServer(self._minor))
        except Exception:
            return Difference(script, "", traceback.format_exc())
        with self._connect(is_paced) as server:
            real = play(own, server)
        found = difference(model, real)
        if found is None:
            return None
        number, expected, got = found
        is_watch = any(step.is_watch for step in script.steps if step.number == number)
        until = [step for step in script.steps if step.number <= number or is_watch or step.ends_watches]
        return Difference(replace(script, steps=tuple(until)), expected, got)

    def shorten(self, found: Difference) -> Difference:
        """Leave out steps for as long as the script still shows a difference."""
        best = found
        changed = True
        while changed:
            changed = False
            for step in reversed(best.script.steps):
                if step.ends_watches:
                    continue
                fewer = replace(best.script, steps=tuple(other for other in best.script.steps if other is not step))
                shorter = self.compare(fewer)
                if shorter is not None and len(shorter.script.steps) < len(best.script.steps):
                    best, changed = shorter, True
                    break
        return best
