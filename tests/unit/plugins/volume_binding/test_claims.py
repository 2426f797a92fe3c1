import pytest

from extender_service.cluster.pods.pod_volumes import pod_volumes
from extender_service.cluster.volumes.storage_table import Storage, StorageObject
from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.types.core import NodeSelector, NodeSelectorTerm, Pod, SelectorRequirement
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from extender_service.plugins.volume_binding.claims import (
    UnusableClaimError,
    claims_of,
    eligible_nodes,
    local_nodes,
    sort_out,
)
from tests.support.storage_objects import (
    ephemeral,
    make_claim,
    make_class,
    make_volume,
    with_claims,
    with_volumes,
)

HOSTNAME = "kubernetes.io/hostname"


def storage_of(*items: StorageObject) -> Storage:
    storage = Storage()
    for item in items:
        storage.apply(item)
    return storage


@pytest.mark.parametrize(
    ("pod", "items", "reason"),
    [
        (with_claims("p", "c"), [], 'persistentvolumeclaim "c" not found'),
        (
            with_volumes("p", ephemeral("v")),
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"',
        ),
        (
            with_claims("p", "c"),
            [make_claim("c", "v", phase="Lost")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (with_claims("p", "c"), [make_claim("c", deleted=True)], 'persistentvolumeclaim "c" is being deleted'),
        (
            with_volumes("p", ephemeral("v")),
            [make_claim("p-v", owner="somebody")],
            "PVC default/p-v was not created for pod default/p (pod is not owner)",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_says_why(pod: Pod, items: list[StorageObject], reason: str) -> None:
    with pytest.raises(UnusableClaimError) as raised:
        claims_of(pod_volumes(pod), storage_of(*items))
    assert str(raised.value) == reason


def test_claims_are_told_apart_by_how_far_they_are() -> None:
    claims = [
        make_claim("bound", "v"),
        make_claim("waiting", class_name="late"),
        make_claim("immediate", class_name="early"),
        make_claim("classless"),
        make_claim("unknown", class_name="nobody"),
    ]
    found = sort_out(claims, storage_of(make_class("late"), make_class("early", mode="Immediate")))
    names = [[claim.metadata.name for claim in some] for some in (found.bound, found.waiting, found.immediate)]
    assert names == [["bound"], ["waiting"], ["immediate", "classless", "unknown"]]


def test_a_class_must_say_when_volumes_are_bound() -> None:
    with pytest.raises(PluginError, match='VolumeBindingMode not set for StorageClass "x"'):
        sort_out([make_claim("c", class_name="x")], storage_of(make_class("x", mode=None)))


def local(name: str, *nodes: str) -> PersistentVolume:
    return make_volume(name, only={HOSTNAME: nodes})


def test_local_volumes_leave_the_nodes_that_all_of_them_are_on() -> None:
    storage = storage_of(local("v", "a", "b"), local("w", "b", "c"), local("x", "d"), make_volume("shared"))
    for volumes, nodes in (
        (["shared"], None),
        (["v", "shared"], {"a", "b"}),
        (["v", "w"], {"b"}),
        (["v", "x"], set()),
        (["v", "missing"], None),
        ([], None),
    ):
        assert eligible_nodes([make_claim(f"claim-of-{name}", name) for name in volumes], storage) == nodes


def test_a_volume_is_on_the_nodes_of_any_term_and_of_all_its_requirements() -> None:
    def term(*choices: tuple[str, ...]) -> NodeSelectorTerm:
        return NodeSelectorTerm(tuple(SelectorRequirement(HOSTNAME, "In", choice) for choice in choices))

    affinity = VolumeNodeAffinity(NodeSelector((term(("a", "b"), ("b", "c")), term(("d",)), term())))
    assert local_nodes(make_volume("v", PersistentVolumeSpec(node_affinity=affinity))) == {"b", "d"}
