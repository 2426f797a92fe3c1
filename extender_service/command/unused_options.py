"""Options that are given to a program that does not read them. The log names each: silence would say that it counts."""

import argparse
import logging
from collections.abc import Collection, Iterable

log = logging.getLogger(__name__)


def given_among(options: argparse.Namespace, names: Collection[str]) -> tuple[str, ...]:
    """Return which of these options are given, by their long names; `options` are parsed by an OptionParser."""
    return tuple(sorted(options.given_options.intersection(names)))


def given_besides(options: argparse.Namespace, names: Collection[str]) -> tuple[str, ...]:
    """Return the options that are given and are none of these, by their long names."""
    return tuple(sorted(options.given_options.difference(names)))


def log_unused(options: Iterable[str]) -> None:
    """Log that each of these options changes nothing."""
    for option in options:
        log.warning("an option has no effect", extra={"option": option})
