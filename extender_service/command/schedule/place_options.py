"""The options of `schedule --cluster-file`, which places the pods of a file."""

import argparse
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from extender_service.command.emulation import EmulationOptions, emulation_options
from extender_service.command.option_parser import AddOption
from extender_service.command.option_values import existing_file
from extender_service.command.start_error import StartError
from extender_service.command.unused_options import given_besides

# The other options of `schedule` are about a scheduler in a cluster.
READ: Final = frozenset(
    {
        "--cluster-file",
        "--config",
        "--emulated-version",
        "--feature-gates",
        "--log-format",
        "--log-level",
        "--logging-format",
        "--output",
        "--plugin",
    }
)


@dataclass(frozen=True)
class PlaceOptions:
    """The options of `schedule --cluster-file`. `without_effect` are the names of others that were given."""

    cluster_files: list[Path]
    emulation: EmulationOptions
    config: Path | None
    plugins: list[str]
    output: Literal["text", "json"]
    without_effect: tuple[str, ...]
    log_level: int
    log_format: Literal["text", "json"]


def add_place_options(add: AddOption) -> None:
    """Add the options that `schedule` has besides. `add` is like argparse's add_argument."""
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


def place_options(options: argparse.Namespace) -> PlaceOptions:
    """Return the parsed options. Raises StartError for one that asks for something else."""
    if "--write-config-to" in options.given_options:
        raise StartError(
            "--write-config-to does not go with --cluster-file: it writes the configuration instead of placing pods. "
            "Give one of the two"
        )
    return PlaceOptions(
        cluster_files=options.cluster_file,
        emulation=emulation_options(options),
        config=options.config,
        plugins=options.plugin or [],
        output=options.output,
        without_effect=given_besides(options, READ),
        # The result is what the user asked for, and says what the log would.
        log_level=max(options.log_level, logging.WARNING) if options.log_level >= logging.INFO else options.log_level,
        log_format=options.log_format,
    )
