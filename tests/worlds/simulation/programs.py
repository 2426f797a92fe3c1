"""The product's programs in a world, as their command lines start them."""

from functools import partial

from extender_service.command.cli import parser
from extender_service.command.schedule.schedule import run_scheduler
from extender_service.command.schedule.schedule_options import schedule_options
from extender_service.command.serve.serve import run_service
from extender_service.command.serve.serve_options import serve_options
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World


def scheduler(
    world: World, name: str, api_server: str, *arguments: str, clocks: MachineClocks | None = None
) -> Process:
    """Return `schedule` on a machine, with more arguments. Nothing is served, as TLS is outside of the world, and no
    thread watches it."""
    usual = ("schedule", "--master", api_server, "--secure-port", "0", "--watchdog-timeout", "0")
    options = schedule_options(parser().parse_args([*usual, *arguments]))
    return Process(world, name, partial(run_scheduler, options), clocks)


def service(
    world: World,
    name: str,
    api_server: str,
    address: str,
    *arguments: str,
    clocks: MachineClocks | None = None,
    host_name: str | None = None,
) -> Process:
    """Return `serve` on a machine, with more arguments, at the usual port of this address. No thread watches it.

    The machine has the name of the process unless a `host_name` is given.
    """
    usual = (
        "serve",
        "--master",
        api_server,
        "--bind-address",
        address,
        "--insecure-serving",
        "--watchdog-timeout",
        "0",
    )
    options = serve_options(parser().parse_args([*usual, *arguments]))
    return Process(world, name, partial(run_service, options), clocks, host_name=host_name)
