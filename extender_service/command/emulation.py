"""--emulated-version and --feature-gates: which release of Kubernetes decides."""

import argparse
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from extender_service.command.option_parser import AddOption
from extender_service.command.option_values import parsed_by
from extender_service.command.start_error import StartError
from extender_service.command.unused_options import log_unused
from extender_service.config.feature_gates import GateSettings, parse_gates, resolve_gates
from extender_service.config.known_gates import known_gates
from extender_service.config.release import (
    NEWEST_MINOR,
    OLDEST_MINOR,
    nearest_minor,
    parse_emulated_version,
    version_of,
)
from extender_service.config.rules import Rules, rules_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmulationOptions:
    """The release 1.`minor`, None for that of the API server, and the feature gates that are set."""

    minor: int | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)

    def rules(self, server_minor: int = NEWEST_MINOR) -> Rules:
        """Return the rules. Log which gates have no effect here, or only some of their effects, or will be removed.

        Without a release of its own, they are those of `server_minor`, or of the one next to it that can be followed.
        Raises StartError for a gate that cannot be set.
        """
        minor = self.minor
        if minor is None:
            minor = nearest_minor(server_minor)
            if minor != server_minor:
                releases = {"server": version_of(server_minor), "emulated_version": version_of(minor)}
                log.warning("the API server's release is not one that can be followed", extra=releases)
        settings = self._settings(minor)
        log_unused(f"--feature-gates {name}" for name in settings.without_effect)
        for name in settings.not_followed:
            log.warning(
                "a feature gate by which kube-scheduler decides is not followed: its default counts",
                extra={"gate": name, "emulated_version": version_of(minor)},
            )
        for name in settings.to_be_removed:
            log.warning(
                "a feature gate will be removed in a later release, which then refuses it: take it out of "
                "--feature-gates before you upgrade to that",
                extra={"gate": name, "stage": known_gates(minor)[name].stage, "emulated_version": version_of(minor)},
            )
        rules = self.rules_for(minor)
        if rules.groups_preempted:
            log.warning(
                "a feature gate is followed in part: pods of groups are neither judged nor preempted",
                extra={"gate": "GenericWorkload", "emulated_version": rules.release},
            )
        return rules

    @property
    def possible_minors(self) -> Iterable[int]:
        """The minors that may come to decide, the newest first."""
        return range(NEWEST_MINOR, OLDEST_MINOR - 1, -1) if self.minor is None else (self.minor,)

    def rules_for(self, minor: int) -> Rules:
        """Return the rules of 1.`minor` with the gates. Raises StartError for a gate that cannot be set."""
        return rules_of(minor, self._settings(minor).values)

    @contextmanager
    def naming_release(self, release: str) -> Iterator[None]:
        """Name the release that decides in a StartError of the context, unless the user has chosen it.

        For options that `setup_of_some_release` has accepted: another release takes them.
        """
        try:
            yield
        except StartError as error:
            if self.minor is not None:
                raise
            raise StartError(
                f"{error}\nkube-scheduler {release}, whose rules decide here unless --emulated-version says otherwise, "
                "refuses this; another release takes it"
            ) from error

    def _settings(self, minor: int) -> GateSettings:
        try:
            return resolve_gates(self.gates, minor)
        except ValueError as error:
            raise StartError(f"--feature-gates: {error}") from error


def add_emulation_options(add: AddOption) -> None:
    """Add both options. `add` is like argparse's add_argument."""
    add(
        "--emulated-version",
        type=parsed_by(parse_emulated_version),
        action="append",
        metavar="MAJOR.MINOR",
        help=f"decide as kube-scheduler of this release does, {version_of(OLDEST_MINOR)} to {version_of(NEWEST_MINOR)} "
        "(default: that of the API server; for a cluster file and for `config`, the newest)",
    )
    add(
        "--feature-gates",
        type=parsed_by(parse_gates),
        action="append",
        metavar="NAME=true|false,...",
        help="kube-scheduler's feature gates in that release; the log names those that change nothing here",
    )


def emulation_options(options: argparse.Namespace) -> EmulationOptions:
    """Return the parsed options; of several values for the version or for a gate, the last one counts."""
    minors = options.emulated_version or [None]
    settings = {name: is_on for gates in options.feature_gates or () for name, is_on in gates.items()}
    return EmulationOptions(minors[-1], settings)
