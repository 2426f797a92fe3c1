"""Stock kube-schedulers with the service as their extender."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.e2e.support.objects import Object
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.processes import Process

# The extension points at which a scheduler decides, and which an extender's filter and prioritize verbs stand for.
DECISION_POINTS = ("preFilter", "filter", "preScore", "score")
# What DynamicResources, a default plugin since Kubernetes 1.34, does besides deciding. Without its PreFilter it fails.
_DYNAMIC_RESOURCES = {"name": "DynamicResources"}
# Backoff in seconds: a pod whose call failed is tried again soon.
_SOON = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


@contextmanager
def running(control_plane: ControlPlane, configuration: Object, *, verbosity: int = 4) -> Iterator[Process]:
    """A kube-scheduler for as long as the context lasts."""
    scheduler = control_plane.start_scheduler(configuration, verbosity=verbosity)
    try:
        yield scheduler
    finally:
        scheduler.kill()


def replacing(url: str, *, node_cache_capable: bool) -> Object:
    """kube-scheduler decides nothing itself: the service at `url` filters, scores and binds in its place."""
    return {
        **_SOON,
        "percentageOfNodesToScore": 100,
        "profiles": [profile_keeping([])],
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "bindVerb": "bind",
                "weight": 1,
                "nodeCacheCapable": node_cache_capable,
                "ignorable": False,
                "httpTimeout": "30s",
            }
        ],
    }


def profile_keeping(filters: Sequence[str], scheduler_name: str = "default-scheduler") -> Object:
    """A profile whose decisions an extender makes, but for these filters: what they refuse can start preemption."""
    off: dict[str, Any] = {point: {"disabled": [{"name": "*"}]} for point in DECISION_POINTS}
    for point in ("preFilter", "filter"):
        off[point]["enabled"] = [{"name": name} for name in filters]
    off |= {point: {"disabled": [{"name": "VolumeBinding"}, _DYNAMIC_RESOURCES]} for point in ("reserve", "preBind")}
    off["postFilter"] = {"disabled": [_DYNAMIC_RESOURCES]}
    # A sample may hold no node that the extender agrees to.
    all_nodes = {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 100}}
    return {"schedulerName": scheduler_name, "plugins": off, "pluginConfig": [all_nodes]}


def leaving_preemption(url: str, scheduler_names: Sequence[str] = ("default-scheduler",)) -> Object:
    """As `replacing`, and the service at `url` makes room as well (--preemption=service).

    DynamicResources, a default of PostFilter since 1.34, does nothing for pods without claims. Without any plugin
    there, kube-scheduler takes nominations back since 1.35.
    """
    configuration = replacing(url, node_cache_capable=True)
    del configuration["extenders"][0]["preemptVerb"]
    profiles = [profile_keeping([], name) for name in scheduler_names]
    for profile in profiles:
        profile["plugins"]["preFilter"]["enabled"] = [_DYNAMIC_RESOURCES]
        profile["plugins"]["postFilter"] = {"disabled": [{"name": "DefaultPreemption"}]}
    return {**configuration, "profiles": profiles}


def beside(url: str, *, node_cache_capable: bool, weight: int = 1) -> Object:
    """kube-scheduler with its default plugins; the service at `url` adds verdicts, scores of this weight, victims."""
    return {
        **_SOON,
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": "default-scheduler"}],
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "weight": weight,
                "nodeCacheCapable": node_cache_capable,
                "ignorable": True,
                "httpTimeout": "30s",
            }
        ],
    }
