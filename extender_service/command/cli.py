"""The command line: parses the options and runs the command."""

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version

from extender_service.command.emulation import emulation_options
from extender_service.command.option_parser import ENVIRONMENT_PREFIX, OptionParser
from extender_service.command.schedule.place_options import add_place_options, place_options
from extender_service.command.schedule.schedule_options import add_schedule_options, schedule_options
from extender_service.command.serve.serve_options import add_serve_options, serve_options
from extender_service.command.shared_options import add_config_options
from extender_service.command.start_error import StartError
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, version_of
from extender_service.serving.process_end import set_signal_handler

PROGRAM = "extender-service"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 1 if it cannot start, 130 after Ctrl-C. Exits with 2 for wrong usage."""
    options = parser().parse_args(arguments)
    if options.command == "version":
        print(_version())  # noqa: T201 - the user asked for it
        return 0
    # It ends the process while it starts, also as the first of a container. The commands handle it later.
    set_signal_handler(signal.SIGTERM, signal.SIG_DFL)
    # The default action ends the process, also while it starts. debug_on_signal handles the signal later.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        return _run(options)
    except StartError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)  # noqa: T201 - there is no log yet
        return 1
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    # Import late, so that `version` is fast, and that a program loads nothing of the others.
    if options.command == "serve":
        from extender_service.command.serve.serve import serve  # noqa: PLC0415

        serve(serve_options(options))
    elif options.command == "schedule" and options.cluster_file:
        from extender_service.command.schedule.place_file import place_files  # noqa: PLC0415

        place_files(place_options(options))
    elif options.command == "schedule":
        from extender_service.command.schedule.schedule import schedule  # noqa: PLC0415

        return schedule(schedule_options(options))
    else:
        _run_config(options)
    return 0


def _run_config(options: argparse.Namespace) -> None:
    from extender_service.command.setup import Setup  # noqa: PLC0415
    from extender_service.config.dump import dump_config  # noqa: PLC0415
    from extender_service.observability.logs import configure_logging  # noqa: PLC0415

    configure_logging(logging.WARNING, "text")
    emulation = emulation_options(options)
    setup = Setup(options.config, options.plugin or [], rules=emulation.rules())
    valid = f"valid for kube-scheduler {version_of(emulation.minor or NEWEST_MINOR)}\n"
    print(dump_config(setup.config) if options.action == "print" else valid, end="")  # noqa: T201


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = OptionParser(
        prog=PROGRAM, description="kube-scheduler's decisions, as its extender or as the whole scheduler"
    )
    top.add_argument("--version", action="version", version=_version(), help="print the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=OptionParser)
    commands.add_parser("version", help="print the version")
    serve = commands.add_parser(
        "serve",
        help="run the extender service",
        description="Answer kube-scheduler's calls. An environment variable can set each option, too: for example "
        f"--bind-address by {ENVIRONMENT_PREFIX}BIND_ADDRESS. Commas separate several values.",
    )
    add_serve_options(serve.add_option)
    schedule = commands.add_parser(
        "schedule",
        help="run the whole scheduler, in kube-scheduler's place or beside it",
        description="Schedule the pods of the profiles' scheduler names, as kube-scheduler does, with its flags. "
        "This program's own are --plugin, --decision-timeout, --watchdog-timeout, --log-level, --log-format, "
        "--cluster-file and --output. An environment variable can set each option, too: for example --kubeconfig by "
        f"{ENVIRONMENT_PREFIX}KUBECONFIG.",
    )
    schedule.add_option("--version", action="version", version=_version(), help="print the version and exit")
    add_schedule_options(schedule.add_option)
    add_place_options(schedule.add_option)
    config = commands.add_parser("config", help="print or check a KubeSchedulerConfiguration")
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=OptionParser)
    for action, what in (("print", "print it with every default"), ("check", "report only whether it is valid")):
        add_config_options(actions.add_parser(action, help=what, description=f"Check a file, and {what}.").add_option)
    return top


def _version() -> str:
    releases = f"{version_of(OLDEST_MINOR)} to {version_of(NEWEST_MINOR)}"
    return f"{PROGRAM} {version(PROGRAM)} (follows kube-scheduler {releases})"
