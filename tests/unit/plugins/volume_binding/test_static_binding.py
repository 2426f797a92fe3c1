import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.config.rules import rules_of
from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.types.core import LabelSelector, SelectorRequirement
from extender_service.kube.types.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from extender_service.plugins.volume_binding.static_binding import UNBOUND, bind_statically
from tests.counted.bytecodes import executed
from tests.support.clusters.volume_worlds import storage_cluster
from tests.support.objects import make_node
from tests.support.storage_objects import make_claim, make_volume

NODES = ("a", "b", "c")


def cluster_with(volumes: list[PersistentVolume]) -> Cluster:
    storage: list[StorageObject] = [*volumes]
    return storage_cluster([make_node(name, labels={"host": name}) for name in NODES], storage)


def bound(volumes: list[PersistentVolume], *claims: PersistentVolumeClaim) -> dict[str, dict[str, str | None]]:
    """The volume of each claim on each node, None where it finds none."""
    cluster = cluster_with(volumes)
    found = bind_statically(cluster.view(None), claims, cluster.storage.free_volumes, rules_of(31))
    return {
        claim.metadata.name: {
            name: None if number == UNBOUND else found.volumes[number].metadata.name
            for name, number in zip(NODES, chosen.tolist(), strict=True)
        }
        for claim, chosen in zip(found.claims, found.chosen, strict=True)
    }


def bound_in_order(volumes: list[PersistentVolume], *claims: PersistentVolumeClaim) -> list[list[str | None]]:
    """For each claim, the names of its volumes on the nodes."""
    cluster = cluster_with(volumes)
    found = bind_statically(cluster.view(None), claims, cluster.storage.free_volumes, rules_of(31))
    names = [*(volume.metadata.name for volume in found.volumes), None]
    return [[names[number] for number in chosen.tolist()] for chosen in found.chosen]


def everywhere(name: str | None) -> dict[str, str | None]:
    return dict.fromkeys(NODES, name)


def local(name: str, *nodes: str, size: str = "1Gi") -> PersistentVolume:
    return make_volume(name, size=size, only={"host": nodes})


def test_each_node_gives_the_smallest_volume_that_fits() -> None:
    volumes = [local("a-5", "a", size="5Gi"), local("a-3", "a", size="3Gi"), local("a-1", "a"), local("b", "b")]
    assert bound(volumes, make_claim("c", size="2Gi")) == {"c": {"a": "a-3", "b": None, "c": None}}


def test_no_volume_is_given_to_two_claims_of_a_pod() -> None:
    volumes = [make_volume("shared", size="2Gi"), local("a", "a", size="3Gi"), local("b", "b", size="1Gi")]
    found = bound(volumes, make_claim("large", size="2Gi"), make_claim("small", size="1Gi"))
    assert found == {
        "small": {"a": "shared", "b": "b", "c": "shared"},
        "large": {"a": "a", "b": "shared", "c": None},
    }


def test_the_smaller_claim_chooses_first() -> None:
    assert list(bound([], make_claim("b", size="2Gi"), make_claim("a", size="1Gi"), make_claim("c", size=None))) == [
        "c",
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    ("claim", "volume", "fits"),
    [
        (make_claim("c"), make_volume("v"), True),
        (make_claim("c", size="2Gi"), make_volume("v"), False),
        (make_claim("c", class_name="x"), make_volume("v"), False),
        (make_claim("c", class_name="x"), make_volume("v", class_name="x"), True),
        (make_claim("c", modes=["ReadWriteMany"]), make_volume("v"), False),
        (make_claim("c"), make_volume("v", modes=["ReadOnlyMany", "ReadWriteOnce"]), True),
        (make_claim("c"), make_volume("v", phase="Bound"), False),
        (make_claim("c", selector=LabelSelector({"tier": "gold"})), make_volume("v"), False),
        (make_claim("c", selector=LabelSelector({"tier": "gold"})), make_volume("v", labels={"tier": "gold"}), True),
        (make_claim("c"), make_volume("v", claim=ClaimReference("default", "other")), False),
    ],
)
def test_which_volumes_fit(claim: PersistentVolumeClaim, volume: PersistentVolume, fits: bool) -> None:
    assert bound([volume], claim) == {"c": everywhere("v" if fits else None)}


def test_modes_must_agree() -> None:
    volume = make_volume("v")
    block = structs.replace(volume, spec=structs.replace(volume.spec, volume_mode="Block"))
    plain = structs.replace(volume, spec=structs.replace(volume.spec, volume_mode="Filesystem"))
    assert bound([block], make_claim("c")) == {"c": everywhere(None)}
    assert bound([plain], make_claim("c")) == {"c": everywhere("v")}


@pytest.mark.parametrize(
    ("uid", "class_name", "size", "found"),
    [
        ("", "", "9Gi", "kept"),
        ("uid-of-c", "", "9Gi", "kept"),
        ("old", "", "9Gi", "free"),
        ("", "x", "9Gi", "free"),
        ("", "", "1Mi", "free"),
    ],
)
def test_a_volume_that_is_kept_for_the_claim_comes_first(uid: str, class_name: str, size: str, found: str) -> None:
    reference = ClaimReference("default", "c", uid)
    kept = make_volume("kept", size=size, class_name=class_name, claim=reference, phase="Released", modes=())
    assert bound([kept, make_volume("free")], make_claim("c")) == {"c": everywhere(found)}


def test_a_kept_volume_out_of_reach_is_not_replaced() -> None:
    kept = make_volume("kept", claim=ClaimReference("default", "c"), only={"host": ["a"]})
    assert bound([kept, make_volume("free")], make_claim("c")) == {"c": {"a": "kept", "b": None, "c": None}}


def test_a_claim_that_is_named_twice_gets_another_volume_beside_the_kept_one() -> None:
    claim = make_claim("c")
    kept = make_volume("kept", claim=ClaimReference("default", "c"), only={"host": ["a", "b"]})
    # On c, the kept volume is out of reach of both.
    assert bound_in_order([kept], claim, claim) == [["kept", "kept", None], [None, None, None]]
    volumes = [kept, local("free", "b", "c"), local("larger", "b", size="2Gi")]
    assert bound_in_order(volumes, claim, claim) == [["kept", "kept", None], [None, "free", None]]
    more = make_volume("more", claim=ClaimReference("default", "c"), only={"host": ["b"]})
    found = bound_in_order([kept, more, local("free", "a", "b", "c")], claim, claim, claim)
    assert found == [["kept", "kept", None], [None, "more", None], [None, "free", None]]


def test_a_claim_that_is_named_twice_gets_two_free_volumes() -> None:
    claim = make_claim("c")
    volumes = [local("small", "a", "b"), local("large", "a", size="2Gi")]
    assert bound_in_order(volumes, claim, claim) == [["small", "small", None], ["large", None, None]]


def test_a_claim_that_is_named_very_often_and_finds_nothing_is_looked_at_once() -> None:
    cluster = cluster_with([local("other-class", "a", size="1Mi"), local("a", "a"), local("b", "b")])
    view, free = cluster.view(None), cluster.storage.free_volumes

    def binding(times: int) -> int:
        found = bind_statically(view, [make_claim("c")] * times, free, rules_of(31))
        assert len(found.chosen) == times
        return executed(lambda: bind_statically(view, [make_claim("c")] * times, free, rules_of(31)))

    assert binding(100) - binding(50) < 50 * 100


@pytest.mark.parametrize("kept_for", [None, ClaimReference("default", "c")])
def test_a_claim_that_is_named_very_often_and_finds_volumes_is_not_compared_with_all_before_at_each_volume(
    kept_for: ClaimReference | None,
) -> None:
    def binding(times: int) -> int:
        names = [f"v{number:02}" for number in range(times)]
        cluster = cluster_with([make_volume(name, claim=kept_for) for name in names])
        view, free = cluster.view(None), cluster.storage.free_volumes
        found = bind_statically(view, [make_claim("c")] * times, free, rules_of(31))
        assert [found.volumes[chosen[0]].metadata.name for chosen in found.chosen] == names
        return executed(lambda: bind_statically(view, [make_claim("c")] * times, free, rules_of(31)))

    # Each time, the volumes are looked at once: twice as many take four times as long, not eight times.
    assert binding(80) < 5 * binding(40)


def test_attributes_of_volumes_are_an_error_while_their_feature_is_off() -> None:
    with pytest.raises(PluginError, match=r"^unsupported volumeAttributesClassName is set on claim default/c when the"):
        bound([], make_claim("c", attributes_class="gold"))


def test_with_their_feature_on_claims_are_bound_to_volumes_of_the_same_attributes() -> None:
    gold = make_volume("gold")
    gold = structs.replace(gold, spec=structs.replace(gold.spec, volume_attributes_class_name="gold"))
    cluster = storage_cluster([make_node("a")], [gold, make_volume("plain")])
    for attributes, expected in ("gold", "gold"), ("", "plain"):
        claim = make_claim("c", attributes_class=attributes)
        found = bind_statically(cluster.view(None), [claim], cluster.storage.free_volumes, rules_of(34))
        assert [volume.metadata.name for volume in found.volumes] == [expected]


def test_a_malformed_selector_is_an_error() -> None:
    selector = LabelSelector(match_expressions=(SelectorRequirement("tier", "Near"),))
    with pytest.raises(PluginError, match=r'^error creating internal label selector for claim: default/c: "Near" is'):
        bound([], make_claim("c", selector=selector))


host_sets = st.none() | st.lists(st.sampled_from(NODES), min_size=1, max_size=2, unique=True)


@settings(deadline=None)
@given(
    hosts=st.lists(host_sets, max_size=6),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    times=st.integers(1, 3),
)
def test_claims_get_what_going_through_all_volumes_node_by_node_gives(
    hosts: list[list[str] | None], sizes: list[int], times: int
) -> None:
    # Volumes have sizes 1, 2, 3, …: which one is the smallest is then defined.
    volumes = [
        make_volume(f"v{number}", size=f"{number}Gi", only=None if only is None else {"host": only})
        for number, only in enumerate(hosts, 1)
    ]
    claims = [make_claim(f"c{number}", size=f"{size}Gi") for number, size in enumerate(sizes)] * times
    by_node: list[list[str | None]] = []
    for node in NODES:
        taken: list[int | None] = []
        for size in sorted(sizes * times):
            fitting = (
                number
                for number, only in enumerate(hosts, 1)
                if number >= size and number not in taken and (only is None or node in only)
            )
            taken.append(next(fitting, None))
        by_node.append([None if number is None else f"v{number}" for number in taken])
    assert bound_in_order(volumes, *claims) == [list(of_claim) for of_claim in zip(*by_node, strict=True)]


def test_volumes_have_one_number_each() -> None:
    cluster = cluster_with([make_volume("v"), make_volume("w", size="2Gi")])
    found = bind_statically(
        cluster.view(None), [make_claim("c"), make_claim("d")], cluster.storage.free_volumes, rules_of(31)
    )
    assert sorted(volume.metadata.name for volume in found.volumes) == ["v", "w"]
    assert not any((one == other).any() for one, other in itertools.combinations(found.chosen, 2))
