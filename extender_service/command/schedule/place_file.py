"""`schedule` without a cluster: places the pending pods of a cluster file, and prints where each goes."""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

import msgspec
import uvloop

from extender_service.command.schedule.place_options import PlaceOptions
from extender_service.command.setup import Setup
from extender_service.command.start_error import StartError
from extender_service.command.unused_options import log_unused
from extender_service.config.problems import ConfigError
from extender_service.kube.parsing.manifests import ManifestError
from extender_service.observability.logs import configure_logging
from extender_service.simulation.pod_outcome import PodOutcome
from extender_service.simulation.simulation import Simulation

# Progress is shown from then on, and as often.
PROGRESS_SECONDS = 1.0


def place_files(options: PlaceOptions) -> None:
    """Print where the pending pods of the files go. Raises StartError."""
    configure_logging(options.log_level, options.log_format)
    log_unused(options.without_effect)
    setup = Setup(options.config, options.plugins, rules=options.emulation.rules())
    setup.warn_of_plugins()
    outcomes = uvloop.run(_place(options, setup))
    text = (as_json if options.output == "json" else as_text)(outcomes, setup.rules.release)
    print(text)  # noqa: T201 - the user asked for it


async def _place(options: PlaceOptions, setup: Setup) -> list[PodOutcome]:
    try:
        simulation = Simulation(
            files=options.cluster_files, config=setup.config, plugins=setup.plugins, release=setup.rules, explains=True
        )
    except ManifestError as error:
        raise StartError(str(error)) from error
    except ConfigError as error:
        raise setup.refused(error) from error
    async with simulation:
        progress = asyncio.create_task(show_progress(simulation, sys.stderr))
        await simulation.settle()
        progress.cancel()
        await asyncio.wait([progress])
        return simulation.outcomes()  # its end rejects those that wait in Permit


async def show_progress(simulation: Simulation, terminal: TextIO) -> None:
    """Show on a terminal how many pods are placed, if it takes long; the line is gone at the end."""
    if not terminal.isatty():
        return
    is_shown = False
    try:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            terminal.write(f"\r{simulation.bound_count} of {simulation.asked_count} pending pods placed")
            terminal.flush()
            is_shown = True
    finally:
        if is_shown:
            terminal.write("\r\033[K")
            terminal.flush()


def as_json(outcomes: Sequence[PodOutcome], release: str) -> str:
    """Return the outcomes as a JSON object: `pods`, how many are `placed` and `unplaced`, and which release decided."""
    placed = sum(bool(outcome.node) for outcome in outcomes)
    found = {"pods": outcomes, "placed": placed, "unplaced": len(outcomes) - placed, "emulated_version": release}
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def as_text(outcomes: Sequence[PodOutcome], release: str) -> str:
    """Return the outcomes as a table, a pod per line, with the sums and the release that decided below."""
    if not outcomes:
        return "No pod waits for a node."
    rows = [("POD", "NODE", "WHY"), *map(_row, outcomes)]
    pods, nodes = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"{pod:{pods}}  {node:{nodes}}  {why}".rstrip() for pod, node, why in rows]
    return "\n".join([*lines, "", f"{_sums(outcomes)} (rules of kube-scheduler {release})."])


def _row(outcome: PodOutcome) -> tuple[str, str, str]:
    why = f"{outcome.reason}: {outcome.message}" if outcome.reason else outcome.message
    if outcome.victims:
        why = f"{why} (preempts {', '.join(outcome.victims)})".strip()
    return f"{outcome.namespace}/{outcome.name}", outcome.node or "-", why


def _sums(outcomes: Sequence[PodOutcome]) -> str:
    placed = sum(bool(outcome.node) for outcome in outcomes)
    reasons = Counter(outcome.reason for outcome in outcomes if not outcome.node)
    victims = sum(len(outcome.victims) for outcome in outcomes)
    parts = [
        f"{placed} of {len(outcomes)} pending pods placed",
        *(f"{count} {name}" for name, count in reasons.items()),
    ]
    if victims:
        parts.append(f"{victims} running {'pods' if victims > 1 else 'pod'} deleted by preemption")
    return ", ".join(parts)
