import asyncio
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, get_args, get_type_hints

import pytest

from extender_service import plugin_api, simulation, testing
from extender_service.plugin_api import (
    CycleState,
    Object,
    PodQuery,
    PodSelector,
    QueuedPod,
    Verdicts,
    WaitingPod,
    node_named,
)
from extender_service.testing import Trial, make_node, make_pod

POD = make_pod("web", node_name="a")
TRIAL = Trial([make_node("a", labels={"zone": "z"})], [POD])
CLUSTER = TRIAL.cluster
NODES = CLUSTER.view(None)
TRIAL.expect(make_pod("next"), "a")
[PLACEMENT] = CLUSTER.placements


async def waiting_pod() -> WaitingPod:
    return WaitingPod(POD, "a", {"Gang": 1.0})


# What the names before a dot in the module's docstring stand for.
OBJECTS: dict[str, object] = {
    "handle": TRIAL.handle,
    "pods": TRIAL.handle.pods,
    "waiting_pods": TRIAL.handle.waiting_pods,
    "cluster": CLUSTER,
    "placements": CLUSTER.placements,
    "workloads": CLUSTER.workloads,
    "storage": CLUSTER.storage,
    "nodes": NODES,
    "column": NODES.label("zone")[1],
    "values": NODES.label("zone")[1].values,
    "node": node_named(CLUSTER, "a"),
    "queued": QueuedPod(POD, 0.0),
    "waiting": asyncio.run(waiting_pod()),
    "verdicts": Verdicts(NODES, NODES.exists),
    "state": CycleState(POD),
    "facts": CLUSTER.pod("default/web"),
    "info": NODES.pods_at(NODES.position_of("a"))[0],
    "placement": PLACEMENT,
}


def promised() -> Iterator[tuple[str, str]]:
    """Attributes that the docstring says are stable: `owner.attribute`, or `.attribute` of the last owner."""
    owner = ""
    for found in re.finditer(r"`(\w*)\.(\w+)[^`]*`", str(plugin_api.__doc__)):
        owner = found[1] or owner
        if owner != "extender_service":
            yield owner, found[2]


def test_all_that_is_exported_is_there_and_nothing_else_is_public() -> None:
    public = [name for name in vars(plugin_api) if not name.startswith("_")]
    assert sorted(public) == sorted(plugin_api.__all__)


@pytest.mark.parametrize(("owner", "attribute"), list(promised()))
def test_what_the_docstring_promises_is_there(owner: str, attribute: str) -> None:
    assert hasattr(OBJECTS[owner], attribute)


@pytest.mark.parametrize("owner", ["node", "info"])
def test_of_what_is_made_for_plugins_alone_the_docstring_promises_all(owner: str) -> None:
    public = {name for name in dir(OBJECTS[owner]) if not name.startswith("_")}
    assert public == {attribute for listed, attribute in promised() if listed == owner}


def test_the_docstring_promises_something_of_each_of_these() -> None:
    assert {owner for owner, _ in promised()} == OBJECTS.keys()


# Types in signatures.

EXPORTED: dict[str, Any] = {
    name: getattr(door, name) for door in (plugin_api, testing, simulation) for name in door.__all__
}
# Of these, the docstring lists what is stable; that of others beneath is internal.
LISTED = {type(listed) for listed in OBJECTS.values()}
# Stable are the fields, and of those that follow only the names.
FIELDS_ALONE = {PodQuery, PodSelector}
NAMES_ALONE = {EXPORTED[name] for name in ("Image", "KubeSchedulerConfiguration", "RequestShape", "Rules", "Selector")}
# Where more is accepted than plugins need to know.
WIDER = {("Cluster.view", "NodeTable"), ("pod_uid", "WatchedPod")}


def function_of(member: object) -> Callable[..., Any] | None:
    """The function of a method or property, None for anything else."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    member = getattr(member, "__func__", member)
    return member if inspect.isfunction(member) else None


def annotations_of(exported: object) -> Iterator[tuple[str, Any]]:
    """What is annotated in the stable part of a function or class, each with where it stands."""
    if inspect.isfunction(exported):
        yield from ((exported.__name__, hint) for hint in get_type_hints(exported).values())
    if not isinstance(exported, type) or exported in LISTED | NAMES_ALONE or issubclass(exported, Object):
        return  # of API types, the docstring says which fields they have
    for each in exported.__mro__:
        if not is_own(each):
            continue
        hints = inspect.get_annotations(each, eval_str=True)
        yield from ((f"{each.__name__}.{name}", hint) for name, hint in hints.items() if not name.startswith("_"))
        for name, member in vars(each).items():
            is_public = name in ("__init__", "__call__") or not name.startswith("_")
            if is_public and exported not in FIELDS_ALONE and (function := function_of(member)) is not None:
                yield from ((f"{each.__name__}.{name}", hint) for hint in get_type_hints(function).values())


def listed_annotations() -> Iterator[tuple[str, Any]]:
    for owner, attribute in promised():
        kind = type(OBJECTS[owner])
        function = function_of(inspect.getattr_static(kind, attribute, None))
        if function is not None:
            yield from ((f"{kind.__name__}.{attribute}", hint) for hint in get_type_hints(function).values())


def types_in(annotation: Any) -> Iterator[type]:
    """The types of this package that an annotation consists of."""
    if isinstance(annotation, list | tuple):  # the parameters of a Callable
        for each in annotation:
            yield from types_in(each)
    for argument in get_args(annotation):
        yield from types_in(argument)
    if isinstance(annotation, type) and is_own(annotation):
        yield annotation


def is_own(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "extender_service"


def test_each_type_in_a_stable_signature_can_be_imported_or_is_described() -> None:
    known = {kind for kind in EXPORTED.values() if isinstance(kind, type)} | LISTED
    annotated = [
        *(annotation for exported in EXPORTED.values() for annotation in annotations_of(exported)),
        *listed_annotations(),
    ]
    found = {where for where, _ in annotated}
    assert {"PostFilterResult.candidates", "FilterAgain.__call__", "NodeView.image", "Simulation.__init__"} <= found
    unknown = {
        (where, kind.__name__) for where, annotation in annotated for kind in types_in(annotation) if kind not in known
    }
    assert unknown == WIDER


def test_the_docstring_says_of_which_types_only_fields_or_names_are_stable() -> None:
    for kind in FIELDS_ALONE | NAMES_ALONE:
        assert f"`{kind.__name__}`" in str(plugin_api.__doc__)


def test_what_a_post_filter_lets_pass_is_what_tests_catch() -> None:
    assert plugin_api.CycleError is testing.CycleError
