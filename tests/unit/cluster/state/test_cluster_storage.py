"""What the cluster makes of storage: columns of nodes, volumes that pods hold, and news for those who wait."""

import asyncio

import numpy as np
import pytest

from extender_service.cluster.nodes.volume_support import VolumeSupport
from extender_service.cluster.state.changes import Change
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.config.rules import NEWEST_RULES
from extender_service.kube.types.core import LabelSelector
from extender_service.kube.types.storage import CSINode
from tests.support.objects import make_node, make_pod
from tests.support.storage_objects import (
    make_attachment,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    with_claims,
)

KEY = "attachable-volumes-csi-csi.example.com"


def limits(view: NodeView) -> dict[str, int | None]:
    supports = [view.volume_supports[number] for number in view.volume_support]
    return {
        name: None if support is None else support.limit(KEY)
        for name, support in zip(view.names, supports, strict=True)
    }


def test_a_csi_node_may_come_before_or_after_its_node() -> None:
    cluster = Cluster()
    cluster.apply_storage(make_csi_node("early", {"csi.example.com": 1}))
    cluster.apply_node(make_node("early"))
    cluster.apply_node(make_node("late"))
    assert limits(cluster.view(None)) == {"early": 1, "late": None}
    cluster.apply_storage(make_csi_node("late", {"csi.example.com": 2}))
    cluster.remove_storage(CSINode, ("", "early"))
    assert limits(cluster.view(None)) == {"early": None, "late": 2}


def test_a_node_that_comes_back_has_its_csi_node_still() -> None:
    cluster = Cluster()
    cluster.apply_storage(make_csi_node("n", {"csi.example.com": 1}))
    cluster.apply_node(make_node("n"))
    cluster.remove_node("n")
    cluster.apply_node(make_node("other"))
    cluster.apply_node(make_node("n"))
    assert limits(cluster.view(None)) == {"other": None, "n": 1}


def test_a_table_that_a_request_changes_leaves_the_cluster_as_it_is() -> None:
    cluster = Cluster()
    cluster.apply_storage(make_csi_node("n", {"csi.example.com": 1}))
    cluster.apply_node(make_node("n"))
    changed = cluster.with_nodes(
        [make_node("n", {KEY: "7", "attachable-volumes-x": "1"}), make_node("new", {KEY: "5"})]
    )
    assert limits(cluster.view(None, changed)) == {"n": 1, "new": 5}
    assert limits(cluster.view(None)) == {"n": 1}
    held = [support for support in cluster.nodes.volume_supports.values if support is not None]
    assert len(held) == 2
    assert VolumeSupport() in held


def test_pods_are_counted_on_each_node_in_its_own_world() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.apply_node(make_node(name))
    for name, node in (("p", "a"), ("q", "a"), ("r", "b"), ("s", "")):
        cluster.apply_pod(make_pod(name, node))
    slots = np.array([cluster._slot_by_key["default", name] for name in ("p", "q", "s")])
    view = cluster.view(None)
    assert view.pods_among(slots).tolist() == [2, 0, 0]
    assert view.pods_among(slots[:0]).tolist() == [0, 0, 0]
    changed = view.changed(RowChanges([0, 1, 2], [slots[0], slots[2], slots[1]], [-1, 1, 1]))
    assert changed.pods_among(slots).tolist() == [1, 1, 1]
    assert changed.pods_among(slots[2:]).tolist() == [0, 1, 0]
    assert changed.at(np.array([1])).pods_among(slots).tolist() == [1]
    assert view.pods_among(slots).tolist() == [2, 0, 0]


def test_a_column_that_ends_early_is_zero_from_there() -> None:
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.apply_node(make_node(name))
    assert cluster.view(None).by_row(np.array([7, 8])).tolist() == [7, 8, 0]
    assert cluster.view(np.array([2, 0])).by_row(np.array([7, 8])).tolist() == [0, 7]


def test_volumes_are_attached_whether_or_not_plugins_see_objects_of_their_kinds() -> None:
    cluster = Cluster(NEWEST_RULES)
    cluster.show_only(())
    cluster.apply_node(make_node("a"))
    cluster.apply_storage(make_attachment("leftover", "a", "other"))
    for volume in (make_volume("v", handle="h"), make_volume("other", handle="i")):
        cluster.apply_storage(volume)
    cluster.apply_storage(make_class("x"))
    for claim in (make_claim("bound", "v"), make_claim("late", class_name="x")):
        cluster.apply_storage(claim)
    cluster.apply_pod(with_claims("p", "bound", "late", "missing", node="a"))
    assert cluster.held_volumes.attached(KEY, migrated=False).tolist()[:1] == [3]


@pytest.mark.parametrize(
    ("item", "event"),
    [
        (make_volume("v"), Change.VOLUME),
        (make_claim("c"), Change.CLAIM),
        (make_class("x"), Change.STORAGE_CLASS),
        (make_csi_node("n"), Change.CSI_NODE),
        (make_driver("d", storage_capacity=True), Change.CSI_DRIVER),
        (make_capacity("k", "x", "1Gi", LabelSelector()), Change.CSI_STORAGE_CAPACITY),
    ],
)
def test_who_waits_for_a_kind_of_storage_hears_of_it(item: StorageObject, event: Change) -> None:
    async def heard(wanted: Change) -> bool:
        cluster = Cluster()
        waiting = asyncio.create_task(cluster.changes.wait(wanted, 0.05 if wanted is not event else 10))
        await asyncio.sleep(0)
        cluster.apply_storage(item)
        return await waiting

    assert asyncio.run(heard(event))
    assert not asyncio.run(heard(~event))
