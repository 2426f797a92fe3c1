import re
from collections.abc import Iterator

import pytest

from extender_service import plugin_api
from extender_service.plugin_api import CycleState, Verdicts
from extender_service.testing import Trial, make_node, make_pod

POD = make_pod("web", node_name="a")
TRIAL = Trial([make_node("a", labels={"zone": "z"})], [POD])
CLUSTER = TRIAL.cluster
NODES = CLUSTER.view(None)
TRIAL.expect(make_pod("next"), "a")
[PLACEMENT] = CLUSTER.placements
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


def test_the_docstring_promises_something_of_each_of_these() -> None:
    assert {owner for owner, _ in promised()} == OBJECTS.keys()
