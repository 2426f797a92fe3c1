"""Which rules decide where --emulated-version does not say: those of the API server's release at the start."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

from extender_service.command.emulation import EmulationOptions
from extender_service.config.release import nearest_minor, version_of
from extender_service.config.rules import Rules
from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.backoff import Backoff
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.server_version import server_minor
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import Credentials
from extender_service.observability.health import Health
from extender_service.seams import Machine

log = logging.getLogger(__name__)

_LONGEST_PAUSE_SECONDS = 5.0
# An API server that runs answers sooner, so a usual start needs no server for probes.
_USUAL_SECONDS = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# An upgrade of a control plane takes minutes, and the restart that follows it is not urgent.
_SECONDS_BETWEEN_LOOKS = 600.0

AnsweringProbes = Callable[[Health], AbstractAsyncContextManager[None]]
"""Answers probes with this health until the context ends."""


async def rules_for_server(
    emulation: EmulationOptions, credentials: Credentials, answering_probes: AnsweringProbes, machine: Machine
) -> Rules | None:
    """Return the rules; ask the API server for its release until it answers, unless the options say which to follow.

    Returns None if SIGTERM or SIGINT comes first. Probes are answered meanwhile: alive, but not ready.
    Raises StartError for a feature gate that cannot be set.
    """
    if emulation.minor is not None:
        return emulation.rules()
    problem = "no answer yet"

    async def ask() -> int:
        nonlocal problem
        backoff = Backoff(limit_seconds=_LONGEST_PAUSE_SECONDS, clock=machine.clock, uniform=machine.random.uniform)
        async with KubeClient(credentials, clock=machine.clock) as client:
            while True:
                try:
                    return await server_minor(client)
                except (KubeError, CredentialsError) as error:
                    problem = str(error)
                    log.warning(
                        "waiting for the release of the API server; --emulated-version says which to follow instead",
                        extra={"error": problem},
                    )
                await asyncio.sleep(backoff.next_delay())

    with _told_to_end(machine) as told:
        work = asyncio.create_task(ask()), asyncio.create_task(told.wait())
        asking = work[0]
        try:
            await asyncio.wait(work, timeout=_USUAL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done() and not told.is_set():
                async with answering_probes(Health({"api-server-release": lambda: problem})):
                    await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        # The signal may also have come after the answer, while the server for probes ended.
        if told.is_set():
            return None
        minor = asking.result()
        with emulation.naming_release(version_of(nearest_minor(minor))):
            return emulation.rules(minor)


async def warn_of_upgrade(
    emulation: EmulationOptions, release: str, client: KubeClient, *, seconds: float = _SECONDS_BETWEEN_LOOKS
) -> None:
    """Ask the API server for its release now and then, and log when it is no longer the one that decides.

    The rules stay those of `release` until the program is restarted, as running pods already count by them. While API
    servers of two releases answer in turns, each change away from `release` is logged. A release that cannot be
    followed counts as the nearest one, by whose rules a restarted program would decide. Ends at once if the options
    say which release to follow.
    """
    if emulation.minor is not None:
        return
    seen = release
    while True:
        await asyncio.sleep(seconds)
        try:
            minor = await server_minor(client)
        except (KubeError, CredentialsError):
            continue  # so do the watches and the lease, and they say so
        found = version_of(nearest_minor(minor))
        if found not in (release, seen):
            log.warning(
                "the API server has another release than at the start, whose rules still decide: restart this program "
                "when all API servers are upgraded",
                extra={"server": version_of(minor), "emulated_version": release},
            )
        seen = found


@contextmanager
def _told_to_end(machine: Machine) -> Iterator[asyncio.Event]:
    """Set the event at SIGTERM or SIGINT, which the context handles. A second one ends the process at once."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()

    def stop_handling() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        machine.set_signal_handler(signal.SIGTERM, signal.SIG_DFL)

    def end() -> None:
        stop_handling()
        told.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, end)
    try:
        yield told
    finally:
        stop_handling()
