"""Real worlds for a search that shrinks one, and the result for a person."""

from collections.abc import Iterator, Sequence

import msgspec

from tests.worlds.finding.command_line import command, shown_names
from tests.worlds.finding.forked import Limits, forked
from tests.worlds.finding.shrinking import Shrunk
from tests.worlds.finding.story import Story
from tests.worlds.finding.world_run import WorldEnd, run_world
from tests.worlds.scenarios import Scenario


def run_all(scenarios: Sequence[Scenario], limits: Limits) -> list[WorldEnd]:
    """Run worlds in processes of their own; return what came of each, in the same order."""
    tasks = list(enumerate(scenarios))
    answers = {ended.task[0]: ended for ended in forked(tasks, lambda task: _run(task[1]), limits)}
    return [
        _without_end(answers[number].why) if (answer := answers[number].answer) is None else _decode(answer)
        for number, _ in tasks
    ]


def told(shrunk: Shrunk) -> Iterator[str]:
    """Yield the lines that a person reads: the command, what is left, and the story up to the violation."""
    stories: list[Story] = []
    end, _ = run_world(shrunk.scenario, lambda cluster: stories.append(Story(cluster)))
    yield f"after {shrunk.runs} worlds, {end.simulated_seconds:g} s of a world are left, with {_shown(shrunk.parts())}:"
    yield command(shrunk.scenario)
    yield ""
    yield from (line for story in stories for line in story.lines())
    yield ""
    yield from (f"VIOLATED {violation}" for violation in end.violations)


def _shown(parts: Sequence[str]) -> str:
    return shown_names(parts) or "no part"


def _run(scenario: Scenario) -> bytes:
    end, _ = run_world(scenario)
    return msgspec.json.encode(end)


def _decode(answer: bytes) -> WorldEnd:
    return msgspec.json.decode(answer, type=WorldEnd)


def _without_end(why: str) -> WorldEnd:
    """Return what came of a world that hung or took too much: no part is known of it, so it can only be told of."""
    return WorldEnd([why], {}, simulated_seconds=0.0, real_seconds=0.0, steps=0, bound=0, pods=0, digest="")
