"""The command line: parses the options and runs the command."""

import argparse
import difflib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from extender_service.command.emulation import add_emulation_options, emulation_options
from extender_service.command.limit_options import add_limit_options, call_limits, connection_limits
from extender_service.command.option_values import boolean, duration, existing_file, parsed_by, port
from extender_service.command.options import PlaceOptions, ServeOptions
from extender_service.command.schedule_options import add_schedule_options, schedule_options
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR, version_of
from extender_service.observability.logs import parse_log_level
from extender_service.serving.process_end import set_signal_handler

PROGRAM = "extender-service"
ENVIRONMENT_PREFIX = "EXTENDER_SERVICE_"

# _Parser.add_option: like argparse's add_argument, with a default from the environment.
AddOption = Callable[..., None]


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports errors in one line, and takes defaults of options from the environment.

    It refuses abbreviated options: an abbreviation that is unique today may be ambiguous in the next version.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self._options: list[tuple[str, argparse.Action, bool]] = []

    def add_option(self, *names: str, **facts: Any) -> None:
        """Add an option. Its environment variable is the default, with the same checks as on the command line.

        Example: --max-body-size takes its default from EXTENDER_SERVICE_MAX_BODY_SIZE.
        """
        variable = ENVIRONMENT_PREFIX + names[-1].removeprefix("--").replace("-", "_").upper()
        self._options.append((variable, self.add_argument(*names, **facts), facts.get("action") == "append"))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse with defaults from the environment. argparse calls this for a command's parser, too.

        So only the variables of the given command are checked.
        """
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
    """Run a command. Returns the exit status: 1 if it cannot start, 130 after Ctrl-C. Exits with 2 for wrong usage."""
    options = parser().parse_args(arguments)
    if options.command == "version":
        print(_version())  # noqa: T201 - the user asked for it
        return 0
    # It ends the process while it starts, also as the first of a container. The commands handle it later.
    set_signal_handler(signal.SIGTERM, signal.SIG_DFL)
    # The default action ends the process, also while it starts. debug_on_signal handles the signal later.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    # Import late, so that `version` is fast.
    from extender_service.command.place_file import place_files  # noqa: PLC0415
    from extender_service.command.schedule import schedule  # noqa: PLC0415
    from extender_service.command.serve import serve  # noqa: PLC0415
    from extender_service.command.setup import Setup  # noqa: PLC0415
    from extender_service.command.start_error import StartError  # noqa: PLC0415
    from extender_service.config.dump import dump_config  # noqa: PLC0415

    try:
        if options.command == "serve":
            serve(_serve_options(options))
        elif options.command == "schedule" and options.cluster_file:
            place_files(_place_options(options))
        elif options.command == "schedule":
            return schedule(schedule_options(options))
        else:
            emulation = emulation_options(options)
            setup = Setup(options.config, options.plugin or [], rules=emulation.rules())
            valid = f"valid for kube-scheduler {version_of(emulation.minor or NEWEST_MINOR)}\n"
            print(dump_config(setup.config) if options.action == "print" else valid, end="")  # noqa: T201
    except StartError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)  # noqa: T201 - there is no log yet
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = _Parser(prog=PROGRAM, description="kube-scheduler's decisions, as its extender or as the whole scheduler")
    top.add_argument("--version", action="version", version=_version(), help="print the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    commands.add_parser("version", help="print the version")
    serve = commands.add_parser(
        "serve",
        help="run the extender service",
        description="Answer kube-scheduler's calls. An environment variable can set each option, too: for example "
        f"--bind-address by {ENVIRONMENT_PREFIX}BIND_ADDRESS. Commas separate several values.",
    )
    _add_serve_options(serve.add_option)
    schedule = commands.add_parser(
        "schedule",
        help="run the whole scheduler, in kube-scheduler's place or beside it",
        description="Schedule the pods of the profiles' scheduler names, as kube-scheduler does, with its flags. "
        "This program's own are --plugin, --decision-timeout, --watchdog-timeout, --log-level, --log-format, "
        "--cluster-file and --output. An environment variable can set each option, too: for example --kubeconfig by "
        f"{ENVIRONMENT_PREFIX}KUBECONFIG.",
    )
    _add_schedule_options(schedule.add_option)
    _add_place_options(schedule.add_option)
    config = commands.add_parser("config", help="print or check a KubeSchedulerConfiguration")
    actions = config.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    for action, what in (("print", "print it with every default"), ("check", "report only whether it is valid")):
        _add_config_options(actions.add_parser(action, help=what, description=f"Check a file, and {what}.").add_option)
    return top


def _version() -> str:
    releases = f"{version_of(OLDEST_MINOR)} to {version_of(NEWEST_MINOR)}"
    return f"{PROGRAM} {version(PROGRAM)} (follows kube-scheduler {releases})"


def _add_config_options(add: AddOption) -> None:
    add(
        "--config",
        type=existing_file,
        metavar="FILE",
        help="KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)",
    )
    add(
        "--plugin",
        action="append",
        metavar="MODULE:CLASS",
        help="a plugin class to load, in addition to the plugins of installed packages; repeatable",
    )
    add_emulation_options(add)


def _add_api_server_options(add: AddOption) -> None:
    add(
        "--kubeconfig",
        type=existing_file,
        metavar="FILE",
        help="how to reach the API server (default: the pod's service account, else KUBECONFIG, else ~/.kube/config)",
    )
    add("--master", default="", metavar="URL", help="the API server's URL; overrides the one in the kubeconfig")


def _add_schedule_options(add: AddOption) -> None:
    add("--version", action="version", version=_version(), help="print the version and exit")
    _add_config_options(add)
    add_schedule_options(add)
    _add_log_options(add, "--v", "--log-level")
    add("--logging-format", dest="log_format", choices=("text", "json"), help="the same as --log-format")


def _add_place_options(add: AddOption) -> None:
    add(
        "--cluster-file",
        type=existing_file,
        action="append",
        metavar="FILE",
        help="instead of scheduling in a cluster, place the pending pods of this file of Kubernetes manifests, print "
        "where each goes or why none fits, and exit; the file stays as it is; repeatable",
    )
    add(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="what --cluster-file prints (default: text)",
    )


def _add_serve_options(add: AddOption) -> None:
    _add_config_options(add)
    _add_api_server_options(add)
    add(
        "--cluster-file",
        type=existing_file,
        action="append",
        metavar="FILE",
        help="read nodes and pods from this file of Kubernetes manifests, instead of an API server, and again when the "
        "file changes; repeatable",
    )
    add(
        "--mode",
        choices=("beside", "replace"),
        default="beside",
        help="beside: add to kube-scheduler's own plugins; replace: decide instead of them (default: beside)",
    )
    add(
        "--preemption",
        choices=("kube-scheduler", "service"),
        default="kube-scheduler",
        help="what makes room for pods that fit nowhere (--mode=replace). kube-scheduler: its own PostFilter plugins, "
        "which need its own filters; service: this service, which nominates the pod and evicts its victims; then "
        "kube-scheduler must have neither DefaultPreemption nor a preemptVerb (default: kube-scheduler)",
    )
    add(
        "--stale-limit",
        type=_stale_limit,
        default=30.0,
        metavar="DURATION",
        help="after so long without data from the API server, become not ready and answer calls with an error "
        "(default: 30s)",
    )
    add(
        "--leader-lease",
        type=_lease,
        metavar="NAMESPACE/NAME",
        help="answer only while a kube-scheduler on this host holds this lease; needed if several pairs of "
        "kube-scheduler and this service elect a leader (--mode=replace)",
    )
    add(
        "--ask-again",
        type=boolean,
        nargs="?",
        const=True,
        default=True,
        metavar="true|false",
        help="if a refused pod fits as soon as the watch has caught up, change an annotation of the pod, so that "
        "kube-scheduler asks again; needs the right to patch pods; --preemption=service needs it (default: true)",
    )
    add("--bind-address", default="127.0.0.1", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)")
    add("--port", type=port, default=8888, metavar="PORT", help="the port to listen on, 0 for any (default: 8888)")
    _add_security_options(add)
    _add_shutdown_options(add)
    add_limit_options(add)
    _add_log_options(add)


def _add_log_options(add: AddOption, *names: str) -> None:
    add(
        "-v",
        *(names or ("--log-level",)),
        dest="log_level",
        type=parsed_by(parse_log_level),
        default=logging.INFO,
        metavar="LEVEL",
        help="debug, info, warning, error, or a number as for kube-scheduler (default: info)",
    )
    add("--log-format", choices=("text", "json"), default="text", help="(default: text)")


def _add_security_options(add: AddOption) -> None:
    add(
        "--tls-cert-file",
        type=existing_file,
        metavar="FILE",
        help="serve HTTPS with this certificate (PEM, followed by its issuers); read again when the file changes",
    )
    add(
        "--tls-private-key-file",
        type=existing_file,
        metavar="FILE",
        help="the key of --tls-cert-file (PEM, not encrypted)",
    )
    add(
        "--tls-min-version",
        choices=("VersionTLS12", "VersionTLS13"),
        default="VersionTLS12",
        help="(default: VersionTLS12)",
    )
    add(
        "--client-ca-file",
        type=existing_file,
        metavar="FILE",
        help="require a client certificate of these authorities (PEM, mutual TLS); read again when the file changes",
    )
    add(
        "--allowed-names",
        type=_names,
        default=[],
        metavar="NAME,...",
        help="with --client-ca-file, accept only client certificates with one of these names as CN or SAN "
        "(default: any name)",
    )
    add(
        "--insecure-serving",
        type=boolean,
        nargs="?",
        const=True,
        default=False,
        metavar="true|false",
        help="allow listening beyond loopback without --client-ca-file: any client that reaches the address can bind "
        "pods",
    )
    add(
        "--healthz-port",
        type=port,
        metavar="PORT",
        help="answer /livez, /readyz and /metrics only on this port, over HTTP without authentication; 0 for any port "
        "(default: 8889 with --client-ca-file or --healthz-bind-address, otherwise --port)",
    )
    add("--healthz-bind-address", metavar="ADDRESS", help="the address of --healthz-port (default: --bind-address)")


def _add_shutdown_options(add: AddOption) -> None:
    add(
        "--shutdown-delay-duration",
        type=duration,
        metavar="DURATION",
        help="after SIGTERM, be not ready but answer calls for so long, until clients use other replicas "
        "(default: 5s, 0s on loopback)",
    )
    add(
        "--shutdown-grace-period",
        type=duration,
        default=25.0,
        metavar="DURATION",
        help="end the process so long after SIGTERM, the delay included; calls and bindings that are unfinished after "
        "four fifths of it are undone (default: 25s)",
    )


def _stale_limit(text: str) -> float:
    seconds = duration(text)
    # Detecting a dead connection and opening a new one takes up to 10 s.
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


def _place_options(options: argparse.Namespace) -> PlaceOptions:
    return PlaceOptions(
        cluster_files=options.cluster_file,
        emulation=emulation_options(options),
        config=options.config,
        plugins=options.plugin or [],
        output=options.output,
        # The result is what the user asked for, and says what the log would.
        log_level=max(options.log_level, logging.WARNING) if options.log_level >= logging.INFO else options.log_level,
        log_format=options.log_format,
    )


def _serve_options(options: argparse.Namespace) -> ServeOptions:
    return ServeOptions(
        emulation=emulation_options(options),
        config=options.config,
        kubeconfig=options.kubeconfig,
        master=options.master,
        cluster_files=options.cluster_file or [],
        plugins=options.plugin or [],
        leader_lease=options.leader_lease,
        ask_again=options.ask_again,
        mode=options.mode,
        preemption=options.preemption,
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
