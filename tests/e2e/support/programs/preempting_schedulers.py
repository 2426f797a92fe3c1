"""Stock kube-schedulers that preempt, with the service as their extender.

Of the filters whose conflicts start preemption kube-scheduler has all in one profile. In another profile for each of
them it does without, so that only the service minds such conflicts.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.e2e.support.objects import Object
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service

# `service`: the service decides alone and preempts by itself.
Mode = Literal["replace", "beside", "service"]

ALL_FILTERS = "default-scheduler"
_FILTERS = ("NodeResourcesFit", "NodePorts", "InterPodAffinity", "PodTopologySpread")


def lacking(plugin: str) -> str:
    """The scheduler name of the profile in which kube-scheduler lacks a filter."""
    return f"without-{plugin}"


@contextmanager
def running(
    control_plane: ControlPlane,
    directory: Path,
    mode: Mode,
    kubeconfig: Path | None = None,
    options: Sequence[str] = (),
) -> Iterator[Service]:
    """A kube-scheduler and the service for as long as the context lasts.

    The service has a `kubeconfig` of its own, or acts as the administrator.
    """
    profiles = _deciding_beside() if mode == "beside" else _deciding_alone()
    kubeconfig = kubeconfig or control_plane.kubeconfig
    service = Service(
        directory,
        kubeconfig,
        mode="beside" if mode == "beside" else "replace",
        configuration={"profiles": profiles},
        options=[*options, *(["--preemption=service"] if mode == "service" else [])],
    )
    with service, schedulers.running(control_plane, _kube_scheduler(mode, service.url)):
        yield service


def _kube_scheduler(mode: Mode, url: str) -> Object:
    if mode == "beside":
        stock = {"schedulerName": ALL_FILTERS}
        others = [{"schedulerName": lacking(name), "plugins": _without(name)} for name in _FILTERS]
        return {**schedulers.beside(url, node_cache_capable=True), "profiles": [stock, *others]}
    if mode == "service":
        return schedulers.leaving_preemption(url, [ALL_FILTERS, *map(lacking, _FILTERS)])
    all_kept = schedulers.profile_keeping(_FILTERS, ALL_FILTERS)
    others = [
        schedulers.profile_keeping([kept for kept in _FILTERS if kept != name], lacking(name)) for name in _FILTERS
    ]
    return {**schedulers.replacing(url, node_cache_capable=True), "profiles": [all_kept, *others]}


def _deciding_alone() -> list[Object]:
    return [{"schedulerName": name} for name in (ALL_FILTERS, *map(lacking, _FILTERS))]


def _deciding_beside() -> list[Object]:
    """Where kube-scheduler lacks a filter the service has that one alone; elsewhere it has the same ones."""
    others = [{"schedulerName": lacking(name), "plugins": _only([name])} for name in _FILTERS]
    return [{"schedulerName": ALL_FILTERS, "plugins": _only(_FILTERS)}, *others]


def _without(name: str) -> Object:
    return {point: {"disabled": [{"name": name}]} for point in ("preFilter", "filter")}


def _only(names: Sequence[str]) -> Object:
    """These filters, and no scores."""
    enabled = {"preFilter": names, "filter": names, "preScore": (), "score": ()}
    return {
        point: {"enabled": [{"name": name} for name in chosen], "disabled": [{"name": "*"}]}
        for point, chosen in enabled.items()
    }
