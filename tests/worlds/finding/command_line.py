"""A scenario as options of a command: read from them, and written as the command that runs it again."""

import argparse
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields, replace
from random import Random
from typing import get_args

from extender_service.config.release import OLDEST_MINOR
from tests.worlds.faults.plan import Fault
from tests.worlds.finding.drawn_worlds import drawn_world
from tests.worlds.finding.small_worlds import small_world
from tests.worlds.scenarios import Mode, Scenario
from tests.worlds.settings.program_settings import draw_wanted

PROGRAM = "python -m tests.worlds"
_DEFAULTS = {field.name: field.default for field in fields(Scenario)}


def add_scenario_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `scenario` reads."""
    parser.add_argument("--minutes", type=float, default=_DEFAULTS["minutes"], help="simulated (default %(default)g)")
    parser.add_argument("--replicas", type=int, default=_DEFAULTS["replicas"], help="of schedule (default %(default)d)")
    parser.add_argument("--nodes", type=int, help="(default: 5, with others by seed)")
    parser.add_argument("--pods", type=int, help="(default: 60, with others by seed)")
    parser.add_argument("--others", action="store_true", help="kubelets, controllers, people and others in the cluster")
    parser.add_argument(
        "--wanted", type=_read_names, default=frozenset(), help="actors, features, settings: people,ports,moods"
    )
    parser.add_argument(
        "--swarm", action="store_true", help="draw by seed what no seed has otherwise, and is wanted, too"
    )
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--fault-kinds", type=_read_names, default=frozenset(), help="some of these: freeze,cut")
    parser.add_argument("--fault", type=_read_fault, action="append", help="this one: 8,freeze,replica-0,4")
    parser.add_argument("--api-servers", type=int, help="behind one address (default: by seed)")
    parser.add_argument(
        "--minor", type=int, help="the release: 37 (default: by seed, as is what only some worlds with others have)"
    )
    parser.add_argument("--small", action="store_true", help="draw all of the above by seed, small; --wanted adds")
    parser.add_argument("--mode", choices=get_args(Mode), help="let the replicas ask `serve` in this mode")
    parser.add_argument("--without", type=_read_names, default=frozenset(), help="leave out parts: pod-0..7,fault-3")
    parser.add_argument("--until", type=float, help="end at this second of the world")


def scenario(options: argparse.Namespace, seed: int) -> Scenario:
    """Return what the options say, with a seed."""
    if options.small:
        return replace(small_world(seed, options.mode, options.wanted), without=options.without, until=options.until)
    said = Scenario(
        seed,
        minutes=options.minutes,
        replicas=options.replicas,
        nodes=options.nodes,
        pods=options.pods,
        has_others=options.others,
        wanted=options.wanted | (draw_wanted(Random(f"wanted {seed}")) if options.swarm else frozenset()),
        has_faults=options.faults,
        faults=None if options.fault is None else tuple(options.fault),
        fault_kinds=options.fault_kinds,
        api_servers=options.api_servers,
        minor=options.minor or OLDEST_MINOR,
        mode=options.mode,
        without=options.without,
        until=options.until,
    )
    return drawn_world(said) if options.minor is None else said


def command(of: Scenario, *more: str) -> str:
    """Return the command that runs a scenario, for a shell."""
    return shlex.join([*PROGRAM.split(), "--seed", str(of.seed), *_options(of), *more])


def _options(of: Scenario) -> Iterator[str]:
    """Yield the release, and the options that are not the default."""
    for name in ("minutes", "replicas", "nodes", "pods", "api_servers", "minor", "mode", "until"):
        value = getattr(of, name)
        if name == "minor" or value != _DEFAULTS[name]:
            yield from (f"--{name.replace('_', '-')}", format(value, "g") if isinstance(value, float) else str(value))
    if of.has_others:
        yield "--others"
    if of.wanted:
        yield from ("--wanted", ",".join(sorted(of.wanted)))
    if of.has_faults:
        yield "--faults"
    for fault in of.faults or ():
        yield from ("--fault", _shown_fault(fault))
    if of.fault_kinds:
        yield from ("--fault-kinds", ",".join(sorted(of.fault_kinds)))
    if of.without:
        yield from ("--without", shown_names(of.without))


def _shown_fault(fault: Fault) -> str:
    numbers = [f"{number:g}" for number in (fault.seconds, fault.amount)]
    return ",".join([f"{fault.at:g}", fault.kind, fault.target, *numbers])


def _read_fault(text: str) -> Fault:
    at, kind, target, *numbers = text.split(",")
    return Fault(float(at), kind, target, *map(float, numbers))


def shown_names(names: Collection[str]) -> str:
    """Return names of parts, those of one kind with one number after the other as a range: pod-0..7,fault-3."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    others = []
    for name in names:
        kind, dash, number = name.rpartition("-")
        if dash and number.isdecimal() and str(int(number)) == number:
            numbers[kind].append(int(number))
        else:
            others.append(name)
    ranges = (f"{kind}-{each}" for kind in sorted(numbers) for each in _ranges(sorted(numbers[kind])))
    return ",".join([*ranges, *sorted(others)])


def _ranges(numbers: Iterable[int]) -> Iterator[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ("..".join(map(str, run)) for run in runs)


def _read_names(text: str) -> frozenset[str]:
    names: set[str] = set()
    for each in text.split(","):
        if found := re.fullmatch(r"(.+)-(\d+)\.\.(\d+)", each):
            kind, first, last = found.groups()
            names |= {f"{kind}-{number}" for number in range(int(first), int(last) + 1)}
        else:
            names.add(each)
    return frozenset(names)
