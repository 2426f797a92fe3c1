from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.nodes.volume_support import limit_key
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.attached_volumes import AttachedVolume, AttachedVolumes
from extender_service.cluster.volumes.storage_table import Storage, StorageObject
from extender_service.config.rules import rules_of
from extender_service.kube.types.keys import key_of
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeSpec, VolumeAttachment
from tests.support.objects import make_node
from tests.support.storage_objects import make_attachment, make_claim, make_volume, with_claims

CSI = "csi.example.com"
NODES, VOLUMES = ("n0", "n1", "n2"), ("a", "b")


def refreshed(attached: AttachedVolumes, storage: Storage, *items: StorageObject) -> list[tuple[AttachedVolume, int]]:
    found: list[tuple[AttachedVolume, int]] = []
    for item in items:
        storage.apply(item)
        found += attached.refresh(type(item), key_of(item))
    return found


def test_an_object_may_come_before_its_volume_and_its_node() -> None:
    storage, nodes = Storage(), NodeTable()
    attached = AttachedVolumes(storage, nodes)
    assert refreshed(attached, storage, make_attachment("x", "n", "v")) == []
    row = nodes.row_of["n"]
    volume = AttachedVolume(row, CSI, "h")
    assert refreshed(attached, storage, make_volume("v", handle="h")) == [(volume, 1)]
    assert volume in attached
    nodes.apply(make_node("n"))
    assert nodes.row_of["n"] == row
    other = AttachedVolume(row, CSI, "other")
    assert refreshed(attached, storage, make_volume("v", handle="other")) == [(volume, -1), (other, 1)]
    # A second object for the same volume changes nothing, nor does the end of the first.
    assert refreshed(attached, storage, make_attachment("y", "n", "v")) == []
    storage.remove(VolumeAttachment, ("", "x"))
    assert list(attached.refresh(VolumeAttachment, ("", "x"))) == []
    storage.remove(PersistentVolume, ("", "v"))
    assert list(attached.refresh(PersistentVolume, ("", "v"))) == [(other, -1)]


def test_what_is_no_csi_volume_or_has_no_attacher_does_not_count() -> None:
    storage = Storage()
    attached = AttachedVolumes(storage, NodeTable())
    items: list[StorageObject] = [
        make_volume("in-tree", PersistentVolumeSpec()),
        make_volume("v"),
        make_attachment("x", "n", "in-tree"),
        make_attachment("y", "n", "v", driver=""),
        make_attachment("z", "", "v"),
        make_attachment("inline", "n", ""),
    ]
    assert refreshed(attached, storage, *items) == []


def test_the_row_of_a_node_is_free_once_nothing_is_attached_to_it() -> None:
    cluster = Cluster(rules_of(37))
    cluster.apply_storage(make_volume("a"))
    cluster.apply_storage(make_attachment("x", "gone", "a"))
    cluster.apply_node(make_node("gone"))
    cluster.remove_node("gone")
    row = cluster.nodes.row_of["gone"]
    cluster.remove_storage(VolumeAttachment, ("", "x"))
    assert "gone" not in cluster.nodes.row_of
    cluster.apply_node(make_node("other"))
    assert cluster.nodes.row_of["other"] == row
    assert cluster.held_volumes.sizes()["attached"] == 0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(NODES), st.booleans()),
        st.tuples(st.just("volume"), st.sampled_from(VOLUMES), st.booleans()),
        st.tuples(st.just("attach"), st.tuples(st.sampled_from(VOLUMES), st.sampled_from(NODES)), st.booleans()),
        st.tuples(st.just("pod"), st.tuples(st.sampled_from(VOLUMES), st.sampled_from(NODES)), st.booleans()),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(steps)
def test_in_any_order_each_volume_counts_once_on_a_node(steps: list[tuple[str, str | tuple[str, str], bool]]) -> None:
    cluster = Cluster(rules_of(37))
    for volume in VOLUMES:
        cluster.apply_storage(make_claim(volume, volume))
    there: Counter[tuple[str, str | tuple[str, str]]] = Counter()
    for what, which, comes in steps:
        there[what, which] = int(comes)
        if what == "node":
            assert isinstance(which, str)
            cluster.apply_node(make_node(which)) if comes else cluster.remove_node(which)
        elif what == "volume":
            assert isinstance(which, str)
            item = make_volume(which)
            cluster.apply_storage(item) if comes else cluster.remove_storage(PersistentVolume, ("", which))
        else:
            assert not isinstance(which, str)
            volume, node = which
            name = f"{volume}-{node}"
            if what == "attach" and comes:
                cluster.apply_storage(make_attachment(name, node, volume))
            elif what == "attach":
                cluster.remove_storage(VolumeAttachment, ("", name))
            elif comes:
                cluster.apply_pod(with_claims(name, volume, node=node))
            else:
                cluster.remove_pod(("default", name))
    counts = cluster.held_volumes.attached(limit_key(CSI), migrated=True)
    for node in NODES:
        expected = sum(
            bool(there["volume", volume]) and bool(there["attach", (volume, node)] or there["pod", (volume, node)])
            for volume in VOLUMES
        )
        row = cluster.nodes.row_of.get(node, -1)
        assert (int(counts[row]) if 0 <= row < len(counts) else 0) == expected, node
