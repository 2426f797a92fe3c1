"""The command line: reads options, and hands them to what they are for."""

import argparse
import difflib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from extender_service.command.limit_options import add_limit_options, call_limits, connection_limits, duration
from extender_service.command.options import ServeOptions
from extender_service.config.release import KUBERNETES_VERSION
from extender_service.observability.logs import parse_log_level

PROGRAM = "extender-service"
ENVIRONMENT_PREFIX = "EXTENDER_SERVICE_"

# argparse's add_argument; the default may come from the environment.
AddOption = Callable[..., None]


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, and where to read more. Options may have defaults from the environment.

    An option has to be written out: what is short for one option today may be short for two in the next version.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self._options: list[tuple[str, argparse.Action, bool]] = []

    def add_option(self, *names: str, **facts: Any) -> None:
        """Add an option whose default may come from the environment, checked like what the command line says."""
        variable = ENVIRONMENT_PREFIX + names[-1].removeprefix("--").replace("-", "_").upper()
        self._options.append((variable, self.add_argument(*names, **facts), facts.get("action") == "append"))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, also for a command; another command's variables are of no concern."""
        for variable, option, is_list in self._options:
            value = os.environ.get(variable)
            if value:
                self.set_defaults(**{option.dest: self._checked(variable, value, option, is_list=is_list)})
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unrecognized(unknown[0]))
        return namespace, unknown

    def _unrecognized(self, argument: str) -> str:
        if not argument.startswith("-") or argument == "-":
            return f"unrecognized argument {argument!r}"
        name = argument.partition("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        longer = [option for option in known if name.startswith("--") and option.startswith(name)]
        meant = longer or difflib.get_close_matches(name, known, n=1)
        return f"there is no option {name}" + (f": did you mean {' or '.join(meant)}?" if meant else "")

    def _checked(self, variable: str, value: str, option: argparse.Action, *, is_list: bool) -> object:
        parse = option.type or str
        assert callable(parse)
        try:
            if is_list:
                return [parse(part) for part in value.split(",")]
            parsed = parse(value)
        except argparse.ArgumentTypeError as error:
            self.error(f"environment variable {variable}: {error}")
        if option.choices is not None and parsed not in option.choices:
            self.error(f"environment variable {variable}: {value!r} is not one of {', '.join(option.choices)}")
        return parsed

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    options = parser().parse_args(arguments)
    if options.command == "version":
        print(_version())  # noqa: T201 - it is what was asked for
        return 0
    # `version` needs none of these.
    from extender_service.command.serve import serve  # noqa: PLC0415
    from extender_service.command.setup import Setup  # noqa: PLC0415
    from extender_service.command.start_error import StartError  # noqa: PLC0415
    from extender_service.config.dump import dump_config  # noqa: PLC0415

    try:
        if options.command == "serve":
            serve(_serve_options(options))
        else:
            setup = Setup(options.config, options.plugin or [])
            print(dump_config(setup.config) if options.action == "print" else "valid\n", end="")  # noqa: T201
    except StartError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)  # noqa: T201 - the one line that says what is wrong
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; every option's default may come from the environment."""
    top = _Parser(prog=PROGRAM, description="kube-scheduler's decision making over the scheduler-extender HTTP API")
    top.add_argument("--version", action="version", version=_version(), help="print the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    commands.add_parser("version", help="print the version")
    serve = commands.add_parser(
        "serve",
        help="answer kube-scheduler",
        description="Answer kube-scheduler. Each option may also be given as an environment variable: "
        f"--bind-address as {ENVIRONMENT_PREFIX}BIND_ADDRESS, and so on; several values are separated by commas.",
    )
    _add_serve_options(serve.add_option)
    config = commands.add_parser("config", help="look at a KubeSchedulerConfiguration")
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    for action, what in (("print", "print it with every default"), ("check", "only say whether it is valid")):
        _add_config_options(actions.add_parser(action, help=what, description=f"Check a file, and {what}.").add_option)
    return top


def _version() -> str:
    return f"{PROGRAM} {version(PROGRAM)} (follows kube-scheduler {KUBERNETES_VERSION})"


def _add_config_options(add: AddOption) -> None:
    add("--config", type=_file, metavar="FILE", help="KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)")
    add(
        "--plugin",
        action="append",
        metavar="MODULE:CLASS",
        help="a plugin class to load, besides those of installed packages; repeatable",
    )


def _add_serve_options(add: AddOption) -> None:
    _add_config_options(add)
    add(
        "--kubeconfig",
        type=_file,
        metavar="FILE",
        help="how to reach the API server (default: the pod's service account, else KUBECONFIG, else ~/.kube/config)",
    )
    add("--master", default="", metavar="URL", help="the API server's URL, in place of the kubeconfig's")
    add(
        "--cluster-file",
        type=_file,
        action="append",
        metavar="FILE",
        help="nodes and pods as Kubernetes manifests, instead of an API server; read again when changed; repeatable",
    )
    add(
        "--mode",
        choices=("beside", "replace"),
        default="beside",
        help="whether this service adds to kube-scheduler's own plugins or decides in their place (default: beside)",
    )
    add(
        "--stale-limit",
        type=_stale_limit,
        default=30.0,
        metavar="DURATION",
        help="once nothing has been heard of the API server for so long, be not ready, and answer with an error "
        "(default: 30s)",
    )
    add(
        "--leader-lease",
        type=_lease,
        metavar="NAMESPACE/NAME",
        help="answer only while a kube-scheduler of this host holds this lease, as is needed where several such pairs "
        "elect a leader (--mode=replace)",
    )
    add("--bind-address", default="127.0.0.1", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)")
    add("--port", type=_port, default=8888, metavar="PORT", help="the port to listen on, 0 for any (default: 8888)")
    _add_security_options(add)
    _add_shutdown_options(add)
    add_limit_options(add)
    add(
        "-v",
        "--log-level",
        type=_log_level,
        default=logging.INFO,
        metavar="LEVEL",
        help="debug, info, warning, error, or a number as for kube-scheduler (default: info)",
    )
    add("--log-format", choices=("text", "json"), default="text", help="(default: text)")


def _add_security_options(add: AddOption) -> None:
    add(
        "--tls-cert-file",
        type=_file,
        metavar="FILE",
        help="serve HTTPS with this certificate, PEM, its own first and then its issuers; read again when it changes",
    )
    add("--tls-private-key-file", type=_file, metavar="FILE", help="the key of --tls-cert-file, PEM, not encrypted")
    add(
        "--tls-min-version",
        choices=("VersionTLS12", "VersionTLS13"),
        default="VersionTLS12",
        help="(default: VersionTLS12)",
    )
    add(
        "--client-ca-file",
        type=_file,
        metavar="FILE",
        help="let in only who shows a certificate of these authorities, PEM (mutual TLS); read again when it changes",
    )
    add(
        "--allowed-names",
        type=_names,
        default=[],
        metavar="NAME,...",
        help="of those, only who has one of these names as the certificate's CN or SAN (default: all of them)",
    )
    add(
        "--insecure-serving",
        type=_boolean,
        nargs="?",
        const=True,
        default=False,
        metavar="true|false",
        help="without --client-ca-file, listen on more than loopback all the same: whoever reaches it can bind pods",
    )
    add(
        "--healthz-port",
        type=_port,
        metavar="PORT",
        help="answer /livez, /readyz and /metrics there alone, over HTTP, for whoever asks, 0 for any "
        "(default: 8889 with --client-ca-file or --healthz-bind-address, else they are on --port)",
    )
    add("--healthz-bind-address", metavar="ADDRESS", help="the address of that port (default: that of --bind-address)")


def _add_shutdown_options(add: AddOption) -> None:
    add(
        "--shutdown-delay-duration",
        type=duration,
        metavar="DURATION",
        help="told to stop, how long to go on answering, though not ready, until nobody is sent here any more "
        "(default: 5s, 0s on loopback)",
    )
    add(
        "--shutdown-grace-period",
        type=duration,
        default=25.0,
        metavar="DURATION",
        help="told to stop, how long until the process ends, delay and all; calls and bindings that have not finished "
        "in four fifths of it are undone (default: 25s)",
    )


def _file(text: str) -> Path:
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder, not a file")
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 to 65535")
    return int(text)


def _stale_limit(text: str) -> float:
    seconds = duration(text)
    # A connection that is dead is noticed, and another one opened, within so long.
    if seconds < 10:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 10s")
    return seconds


def _lease(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAMESPACE/NAME")
    return namespace, name


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return names


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text == "true"


def _log_level(text: str) -> int:
    try:
        return parse_log_level(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _serve_options(options: argparse.Namespace) -> ServeOptions:
    return ServeOptions(
        config=options.config,
        kubeconfig=options.kubeconfig,
        master=options.master,
        cluster_files=options.cluster_file or [],
        plugins=options.plugin or [],
        leader_lease=options.leader_lease,
        mode=options.mode,
        stale_limit_seconds=options.stale_limit,
        bind_address=options.bind_address,
        port=options.port,
        tls_cert_file=options.tls_cert_file,
        tls_private_key_file=options.tls_private_key_file,
        tls_min_version=options.tls_min_version,
        client_ca_file=options.client_ca_file,
        allowed_names=options.allowed_names,
        insecure_serving=options.insecure_serving,
        healthz_bind_address=options.healthz_bind_address,
        healthz_port=options.healthz_port,
        shutdown_delay_seconds=options.shutdown_delay_duration,
        shutdown_grace_seconds=options.shutdown_grace_period,
        calls=call_limits(options),
        connections=connection_limits(options),
        watchdog_seconds=options.watchdog_timeout,
        log_level=options.log_level,
        log_format=options.log_format,
    )
