"""Reserve, Unreserve and PreBind of VolumeBinding."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest
from msgspec import structs

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import Status, unresolvable
from extender_service.kube.api_errors import ApiError, ApiStatus, KubeError
from extender_service.kube.types.core import AWSElasticBlockStore, Pod
from extender_service.kube.types.storage import (
    BIND_COMPLETED_ANNOTATION,
    BOUND_BY_CONTROLLER_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from extender_service.plugins.volume_binding.args import VolumeBindingArgs
from extender_service.plugins.volume_binding.plugin import UNBOUND_IMMEDIATE, VolumeBinding
from extender_service.plugins.volume_binding.volume_binder import BoundVolumes
from tests.support.clusters.volume_worlds import storage_cluster, verdicts
from tests.support.objects import make_node
from tests.support.storage_objects import make_claim, make_class, make_csi_node, make_volume, with_claims

NO_PROVISIONER = "kubernetes.io/no-provisioner"
T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)

STATIC = make_class("static", NO_PROVISIONER)
MADE = make_class("made")


class Api(ClusterFile):
    """Takes writes and counts versions, as the API server does. The watch shows nothing until `show`."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, [])
        self.cluster = cluster
        self.volumes: list[PersistentVolume] = []
        self.claims: list[PersistentVolumeClaim] = []
        self.refusal: KubeError | None = None
        self.during_write: Callable[[], None] = lambda: None
        self.on_write: Callable[[], None] = lambda: None
        self._version = 100

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        self.volumes.append(self._written(volume))
        return self.volumes[-1]

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        self.claims.append(self._written(claim))
        return self.claims[-1]

    def show(self, *items: PersistentVolume | PersistentVolumeClaim) -> None:
        for item in items:
            self.cluster.apply_storage(item)

    def newer(self, item: T) -> T:
        """The same object with the next version."""
        self._version += 1
        return at_version(item, self._version)

    def _written(self, item: T) -> T:
        if self.refusal is not None:
            raise self.refusal
        self.during_write()
        asyncio.get_running_loop().call_soon(self.on_write)
        return self.newer(item)


class Try:
    """One pod on its way to node a."""

    def __init__(self, cluster: Cluster, *claims: str, seconds: int = 600, name: str = "p") -> None:
        self.cluster = cluster
        self.api = Api(cluster)
        self.pod = with_claims(name, *claims)
        self.state = CycleState(self.pod)
        self.plugin = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=seconds), Handle(cluster, self.api))

    def judge(self) -> dict[str, Status | None]:
        refusal = self.plugin.pre_filter(self.state, self.pod)
        assert refusal is None
        return verdicts(self.plugin, self.state, self.pod, self.cluster.view(None))

    def reserve(self) -> Status | None:
        return self.plugin.reserve(self.state, self.pod, "a")

    def unreserve(self) -> None:
        self.plugin.unreserve(self.state, self.pod, "a")

    def bind(self) -> Status | None:
        async def run() -> Status | None:
            async with asyncio.timeout(20):
                return await self.plugin.pre_bind(self.state, self.pod, "a")

        return asyncio.run(run())


def reserved(cluster: Cluster, *claims: str, seconds: int = 600, name: str = "p") -> Try:
    tried = Try(cluster, *claims, seconds=seconds, name=name)
    assert tried.judge()["a"] is None
    assert tried.reserve() is None
    return tried


def cluster_with(*storage: StorageObject, pods: tuple[Pod, ...] = (), rules: Rules = DEFAULT_RULES) -> Cluster:
    nodes = [make_node(name, labels={"host": name}) for name in ("a", "b")]
    return storage_cluster(nodes, storage, pods, rules=rules)


def bound(claim: PersistentVolumeClaim, volume_name: str) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, BIND_COMPLETED_ANNOTATION: "yes"}
    return structs.replace(
        claim,
        metadata=structs.replace(claim.metadata, annotations=annotations),
        spec=structs.replace(claim.spec, volume_name=volume_name),
    )


def at_version(item: T, version: int) -> T:
    return structs.replace(item, metadata=structs.replace(item.metadata, resource_version=str(version)))


def on_a(name: str = "v") -> PersistentVolume:
    return make_volume(name, class_name="static", only={"host": ["a"]})


def refused_everywhere(verdicts: dict[str, Status | None]) -> bool:
    return all(status is not None for status in verdicts.values())


def test_a_volume_is_not_given_twice_until_it_is_given_back() -> None:
    cluster = cluster_with(STATIC, on_a(), make_claim("c", class_name="static"), make_claim("d", class_name="static"))
    first = reserved(cluster, "c")
    assert refused_everywhere(Try(cluster, "d", name="q").judge())
    first.unreserve()
    first.unreserve()
    reserved(cluster, "d", name="q")


def test_what_is_assumed_is_for_claims_only() -> None:
    cluster = cluster_with(STATIC, on_a(), make_claim("c", class_name="static"))
    reserved(cluster, "c")
    volume = cluster.storage.volume("v")
    assert volume == on_a()


def test_a_pod_with_the_same_claim_goes_where_its_volume_is_being_made() -> None:
    cluster = cluster_with(MADE, make_claim("c", class_name="made"))
    first = reserved(cluster, "c")
    other = "node(s) didn't find available persistent volumes to bind"
    assert Try(cluster, "c", name="q").judge() == {"a": None, "b": unresolvable(other)}
    first.unreserve()
    assert Try(cluster, "c", name="q").judge() == {"a": None, "b": None}


def test_giving_back_leaves_what_another_pod_assumed() -> None:
    cluster = cluster_with(STATIC, on_a(), *(make_claim(name, class_name="static") for name in ("c", "d")))
    first = reserved(cluster, "c")
    # The watch shows another version, which is free; so the volume is given to somebody else.
    cluster.apply_storage(structs.replace(on_a(), metadata=structs.replace(on_a().metadata, labels={"x": "y"})))
    reserved(cluster, "d", name="q")
    first.unreserve()
    assert refused_everywhere(Try(cluster, "c").judge())


def test_listing_a_volume_again_does_not_free_it() -> None:
    cluster = cluster_with(STATIC, on_a(), *(make_claim(name, class_name="static") for name in ("c", "d")))
    reserved(cluster, "c")
    cluster.apply_storage(on_a())
    assert refused_everywhere(Try(cluster, "d", name="q").judge())


@pytest.mark.parametrize(("minor", "claim"), [(31, 'v1.PersistentVolumeClaim "default/d"'), (37, '"default/d"')])
def test_nothing_is_assumed_if_a_claim_has_changed_since_filter(minor: int, claim: str) -> None:
    seen = at_version(make_claim("d", class_name="made"), 5)
    cluster = cluster_with(STATIC, MADE, on_a(), make_claim("c", class_name="static"), seen, rules=rules_of(minor))
    tried = Try(cluster, "c", "d")
    tried.judge()
    cluster.apply_storage(at_version(seen, 6))
    with pytest.raises(PluginError) as failed:
        tried.reserve()
    assert str(failed.value) == f"{claim} is out of sync (stored: 6, assume: 5)"
    reserved(cluster, "c", name="q")


@pytest.mark.parametrize(
    ("minor", "text"),
    [
        (34, 'could not find v1.PersistentVolume "v"'),
        (35, 'persistentvolumes "v" not found'),
    ],
)
def test_a_volume_that_is_gone_since_filter_cannot_be_assumed(minor: int, text: str) -> None:
    cluster = cluster_with(STATIC, on_a(), make_claim("c", class_name="static"), rules=rules_of(minor))
    tried = Try(cluster, "c")
    tried.judge()
    cluster.remove_storage(PersistentVolume, ("", "v"))
    with pytest.raises(PluginError) as failed:
        tried.reserve()
    assert str(failed.value) == text


def test_a_node_that_was_refused_cannot_be_reserved() -> None:
    cluster = cluster_with(STATIC, make_claim("c", class_name="static"))
    tried = Try(cluster, "c")
    assert refused_everywhere(tried.judge())
    with pytest.raises(PluginError, match='no pod volumes found for node "a"'):
        tried.reserve()


@pytest.mark.parametrize(
    ("claim", "refusal"),
    [("gone", unresolvable('persistentvolumeclaim "gone" not found')), ("at-once", UNBOUND_IMMEDIATE)],
)
def test_a_pod_that_prefilter_refuses_cannot_be_reserved_where_another_scheduler_wants_it(
    claim: str, refusal: Status
) -> None:
    cluster = cluster_with(make_claim("at-once", class_name="x"), make_class("x", mode="Immediate"))
    tried = Try(cluster, claim)
    assert tried.plugin.pre_filter(tried.state, tried.pod) == refusal
    assert tried.reserve() == refusal


@pytest.mark.parametrize("claims", [[], ["c"]])
def test_where_its_prefilter_is_disabled_it_can_neither_reserve_nor_bind(claims: list[str]) -> None:
    tried = Try(cluster_with(make_claim("c", "v"), make_volume("v")), *claims)
    with pytest.raises(PluginError, match=r"^not found$"):
        tried.reserve()
    with pytest.raises(PluginError, match=r"^not found$"):
        tried.plugin.pre_bind_pre_flight(tried.state, tried.pod, "a")
    with pytest.raises(PluginError, match=r"^not found$"):
        tried.bind()
    tried.unreserve()


def test_pods_without_claims_to_bind_are_left_alone() -> None:
    cluster = cluster_with(make_claim("c", "v"), make_volume("v"))
    for claims in ([], ["c"]):
        tried = Try(cluster, *claims)
        tried.plugin.pre_filter(tried.state, tried.pod)
        assert tried.reserve() is None
        assert tried.bind() is None
        tried.unreserve()
        assert (tried.api.volumes, tried.api.claims) == ([], [])


def test_a_volume_is_bound_to_the_claim_and_waited_for() -> None:
    claim = make_claim("c", class_name="static")
    cluster = cluster_with(STATIC, on_a(), claim)
    tried = reserved(cluster, "c")

    def controller() -> None:
        (volume,) = tried.api.volumes
        tried.api.show(volume, bound(claim, "v"))

    tried.api.on_write = controller
    assert tried.bind() is None
    (volume,) = tried.api.volumes
    assert volume.spec.claim_ref == ClaimReference("default", "c", "uid-of-c")
    assert volume.metadata.annotations == {BOUND_BY_CONTROLLER_ANNOTATION: "yes"}


@pytest.mark.parametrize("uid", ["", "uid-of-c"])
def test_a_volume_that_was_kept_for_the_claim_is_nobodys_choice(uid: str) -> None:
    claim = make_claim("c", class_name="static")
    kept = make_volume("v", class_name="static", claim=ClaimReference("default", "c", uid))
    cluster = cluster_with(STATIC, kept, claim)
    tried = reserved(cluster, "c")
    tried.api.on_write = lambda: tried.api.show(*tried.api.volumes, bound(claim, "v"))
    assert tried.bind() is None
    (volume,) = tried.api.volumes
    assert volume.spec.claim_ref == ClaimReference("default", "c", "uid-of-c")
    assert volume.metadata.annotations == {}


def test_a_volume_is_made_near_the_node_and_waited_for() -> None:
    claim = make_claim("c", class_name="made")
    cluster = cluster_with(MADE, claim)
    tried = reserved(cluster, "c")

    def controllers() -> None:
        (written,) = tried.api.claims
        tried.api.show(written)
        made = make_volume("made", only={"host": ["a"]})
        # The watch of claims may be ahead of that of volumes.
        tried.api.show(tried.api.newer(bound(written, "made")), made)

    tried.api.on_write = controllers
    assert tried.bind() is None
    (written,) = tried.api.claims
    assert written.metadata.annotations == {SELECTED_NODE_ANNOTATION: "a"}


def test_a_claim_that_is_named_twice_has_one_volume_made() -> None:
    claim = make_claim("c", class_name="made")
    tried = reserved(cluster_with(MADE, claim), "c", "c")

    def controllers() -> None:
        (written,) = tried.api.claims
        tried.api.show(make_volume("v"), tried.api.newer(bound(written, "v")))

    tried.api.on_write = controllers
    assert tried.bind() is None
    assert len(tried.api.claims) == 1


@pytest.mark.parametrize("reference", [None, ClaimReference("default", "c")])
def test_a_claim_that_is_named_twice_is_bound_once(reference: ClaimReference | None) -> None:
    claim = make_claim("c", class_name="made")
    first = make_volume("v", class_name="made", claim=reference)
    second = make_volume("w", class_name="made", size="2Gi")
    cluster = cluster_with(MADE, first, second, claim, make_claim("d", class_name="made"))
    tried = reserved(cluster, "c", "c")
    assert [volume.name for volume in cluster.storage.free_volumes.of_class("made")[None]] == ["w"]
    tried.api.on_write = lambda: tried.api.show(*tried.api.volumes, bound(claim, "v"))
    assert tried.bind() is None
    assert ([volume.metadata.name for volume in tried.api.volumes], tried.api.claims) == (["v"], [])
    tried.unreserve()
    tried.unreserve()


def test_a_claim_that_is_named_twice_is_bound_and_not_made_for_its_second_place() -> None:
    claim = make_claim("c", class_name="made")
    tried = reserved(cluster_with(MADE, make_volume("v", class_name="made"), claim), "c", "c")
    tried.api.on_write = lambda: tried.api.show(*tried.api.volumes, bound(claim, "v"))
    assert tried.bind() is None
    assert ([volume.metadata.name for volume in tried.api.volumes], tried.api.claims) == (["v"], [])


def test_nodes_that_are_asked_about_again_can_be_reserved_like_the_others() -> None:
    cluster = cluster_with(STATIC, on_a(), make_claim("c", class_name="static"))
    tried = Try(cluster, "c")
    tried.judge()
    verdicts(tried.plugin, tried.state, tried.pod, cluster.view(cluster.nodes.rows_named(["b"])))
    assert tried.reserve() is None


def test_a_volume_that_its_driver_cannot_take_over_ends_the_wait() -> None:
    claim = make_claim("c", class_name="made")
    cluster = cluster_with(MADE, claim, make_csi_node("a", migrated="kubernetes.io/aws-ebs"))
    malformed = make_volume("v", PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore("aws://odd")))
    text = failure(cluster, lambda api: api.show(malformed, api.newer(bound(api.claims[0], "v"))))
    assert text.startswith("binding volumes: could not translate pv: ")


def test_a_write_that_is_refused_says_so() -> None:
    tried = reserved(cluster_with(MADE, make_claim("c", class_name="made")), "c")
    tried.api.refusal = ApiError(ApiStatus(409, "Conflict", "the object has been modified"))
    with pytest.raises(ApiError, match="modified"):
        tried.bind()


@pytest.mark.parametrize(("minor", "is_free"), [(34, True), (35, False), (37, False)])
def test_from_1_35_on_a_written_volume_stays_taken_until_the_watch_shows_it(minor: int, is_free: bool) -> None:
    claims = [make_claim(name, class_name=kind) for name, kind in (("c", "static"), ("d", "made"), ("e", "static"))]
    cluster = cluster_with(STATIC, MADE, on_a(), *claims, rules=rules_of(minor))
    tried = reserved(cluster, "c", "d")

    def refuse_claims() -> None:
        if tried.api.volumes:
            raise ApiError(ApiStatus(409, "Conflict", "the object has been modified"))

    tried.api.during_write = refuse_claims
    with pytest.raises(ApiError, match="modified"):
        tried.bind()
    tried.unreserve()
    assert cluster.storage.latest(claims[1]) is claims[1]
    assert refused_everywhere(Try(cluster, "e", name="q").judge()) is not is_free
    tried.api.show(*tried.api.volumes)
    assert refused_everywhere(Try(cluster, "e", name="q").judge())
    tried.api.show(tried.api.newer(on_a()))
    reserved(cluster, "e", name="q")


def test_too_late_is_an_error_that_names_the_claims() -> None:
    claims = [make_claim("c", class_name="static"), make_claim("d", class_name="made")]
    tried = reserved(cluster_with(STATIC, MADE, on_a(), *claims), "c", "d", seconds=0)
    late = "binding volumes: context deadline exceeded: default/c, default/d not bound within 0 s"
    with pytest.raises(PluginError, match=late):
        tried.bind()


def test_a_version_that_no_etcd_counts_to_is_older_than_what_was_written() -> None:
    claim = make_claim("c", class_name="made")
    claim = structs.replace(claim, metadata=structs.replace(claim.metadata, resource_version="9" * 5000))
    tried = reserved(cluster_with(MADE, claim), "c", seconds=0)
    with pytest.raises(PluginError, match="default/c not bound within 0 s"):
        tried.bind()


def test_a_provisioner_gives_up_by_taking_the_node_off() -> None:
    claim = make_claim("c", class_name="made", annotations={"x": "y"})
    assert failure(cluster_with(MADE, claim), lambda api: api.show(api.newer(claim))) == (
        'binding volumes: provisioning failed for PVC "c"'
    )
    plain = make_claim("c", class_name="made")
    assert failure(cluster_with(MADE, plain), lambda api: api.show(api.newer(plain))) == (
        'binding volumes: selectedNode annotation reset for PVC "c"'
    )


@pytest.mark.parametrize(
    ("minor", "no_volume", "no_claim"),
    [
        (31, 'could not find v1.PersistentVolume "v"', 'could not find v1.PersistentVolumeClaim "default/c"'),
        (37, 'persistentvolumes "v" not found', 'persistentvolumeclaims "default/c" not found'),
    ],
)
def test_what_keeps_claims_from_being_bound_ends_the_wait(minor: int, no_volume: str, no_claim: str) -> None:
    static, made = make_claim("c", class_name="static"), make_claim("c", class_name="made")
    out_of_reach = 'binding volumes: pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms'
    elsewhere = make_volume("v", only={"host": ["b"]}, claim=ClaimReference("default", "c", "uid-of-c"))

    def existing(happens: Callable[[Api], None]) -> str:
        return failure(cluster_with(STATIC, on_a(), static, rules=rules_of(minor)), happens)

    def being_made(happens: Callable[[Api], None]) -> str:
        return failure(cluster_with(MADE, made, rules=rules_of(minor)), happens)

    assert existing(lambda api: api.cluster.remove_node("a")) == (
        'binding volumes: failed to get node "a": node "a" not found'
    )
    assert existing(lambda api: api.cluster.remove_storage(PersistentVolume, ("", "v"))) == (
        f"binding volumes: failed to check binding: {no_volume}"
    )
    assert existing(lambda api: api.cluster.remove_storage(PersistentVolumeClaim, ("default", "c"))) == (
        f"binding volumes: failed to check binding: {no_claim}"
    )
    assert existing(lambda api: api.show(api.newer(on_a()))) == 'binding volumes: ClaimRef got reset for pv "v"'
    assert existing(lambda api: api.show(api.newer(elsewhere))) == out_of_reach
    assert being_made(lambda api: api.cluster.remove_storage(PersistentVolumeClaim, ("default", "c"))) == (
        f"binding volumes: failed to check provisioning pvc: {no_claim}"
    )
    assert being_made(lambda api: api.show(elsewhere, api.newer(bound(api.claims[0], "v")))) == out_of_reach


def test_a_pod_that_is_deleted_does_not_go_on() -> None:
    pod = with_claims("p", "c")
    cluster = cluster_with(MADE, make_claim("c", class_name="made"), pods=(pod,))
    assert failure(cluster, lambda api: api.cluster.remove_pod(("default", "p"))) == (
        'binding volumes: pod does not exist any more: pod "p" not found'
    )


def test_a_pod_that_is_deleted_while_its_volumes_are_written_does_not_go_on() -> None:
    cluster = cluster_with(MADE, make_claim("c", class_name="made"), pods=(with_claims("p", "c"),))
    tried = reserved(cluster, "c")
    tried.api.during_write = lambda: cluster.remove_pod(("default", "p"))
    with pytest.raises(PluginError, match="pod does not exist any more"):
        tried.bind()


def test_a_pod_that_is_deleted_before_its_volumes_are_written_does_not_go_on() -> None:
    cluster = cluster_with(MADE, make_claim("c", class_name="made"), pods=(with_claims("p", "c"),))
    tried = reserved(cluster, "c")
    cluster.remove_pod(("default", "p"))
    with pytest.raises(PluginError, match="pod does not exist any more"):
        tried.bind()


def test_pods_that_bind_at_once_look_when_their_own_claims_change(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = 40
    claims = [make_claim(f"c{number}", class_name="made") for number in range(pods)]
    cluster = cluster_with(MADE, *claims)
    tries = [reserved(cluster, claim.metadata.name, name=f"p{at}") for at, claim in enumerate(claims)]
    looks = 0
    look = BoundVolumes._are_bound

    def counted(volumes: BoundVolumes) -> bool:
        nonlocal looks
        looks += 1
        return look(volumes)

    monkeypatch.setattr(BoundVolumes, "_are_bound", counted)

    async def burst() -> list[Status | None]:
        binding = [asyncio.create_task(tried.plugin.pre_bind(tried.state, tried.pod, "a")) for tried in tries]
        while not all(tried.api.claims for tried in tries):
            await asyncio.sleep(0)
        for at, tried in enumerate(tries):
            (written,) = tried.api.claims
            for item in (written, tried.api.newer(bound(written, f"v{at}")), make_volume(f"v{at}")):
                tried.api.show(item)
                cluster.apply_node(make_node("b", labels={"host": "b", "changed": f"{at} {item.metadata.name}"}))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        async with asyncio.timeout(20):
            return await asyncio.gather(*binding)

    assert asyncio.run(burst()) == [None] * pods
    assert looks <= 8 * pods  # one before the wait, and one for each of the three changes; the poll may add some


def failure(cluster: Cluster, happens: Callable[[Api], None]) -> str:
    """Why the binding of a pod with claim c fails after something happened while it waits."""
    tried = reserved(cluster, "c")
    tried.api.on_write = lambda: happens(tried.api)
    with pytest.raises(PluginError) as failed:
        tried.bind()
    return str(failed.value)
