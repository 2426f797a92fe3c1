"""Warnings about fields of a configuration without effect in `serve`, which also takes kube-scheduler's own file."""

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from extender_service.config.model import Model
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.framework.profile import Profile

log = logging.getLogger(__name__)

# By their names in Python. Of a profile, all but one field counts.
_READ: Final = {"api_version", "kind", "profiles", "client_connection"}
_READ_OF_CONNECTION: Final = {"qps", "burst"}


def warn_of_fields(config: KubeSchedulerConfiguration) -> None:
    """Log the fields that the file sets and that have no effect in `serve`, in one line."""
    if unused := [*_unused_fields(config)]:
        log.warning("fields of --config have no effect in serve", extra={"fields": ", ".join(unused)})


def warn_of_missing_filters(profiles: Iterable[Profile]) -> None:
    """Log which profiles have no Filter plugin, for `--mode=replace`, where nothing else judges nodes."""
    if names := [profile.scheduler_name for profile in profiles if not profile.filter]:
        log.warning(
            "no Filter plugin is enabled, so --mode=replace checks no node: is --config kube-scheduler's own file?",
            extra={"profiles": ", ".join(names)},
        )


def _unused_fields(config: KubeSchedulerConfiguration) -> Iterator[str]:
    read = set(_READ)
    if config.enable_contention_profiling == config.enable_profiling:
        read.add("enable_contention_profiling")  # counts as set where that is its default
    for field in _set_fields(config, but=read):
        # NodeResourcesFit ignores what extenders manage.
        counts = field == "extenders" and config.ignored_extended_resources()
        yield f"{field} (except managedResources)" if counts else field
    for field in _set_fields(config.client_connection, but=_READ_OF_CONNECTION):
        yield f"clientConnection.{field}"
    if any(profile.percentage_of_nodes_to_score is not None for profile in config.profiles):
        yield "profiles[].percentageOfNodesToScore"


def _set_fields(model: Model, but: Collection[str]) -> Iterator[str]:
    """Iterate over the fields that the file sets, by their names there."""
    for name, field in type(model).model_fields.items():
        if name in model.model_fields_set and name not in but:
            yield str(field.alias)
