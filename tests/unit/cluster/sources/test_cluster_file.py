import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.kube.api_errors import ApiError
from extender_service.kube.parsing.manifests import ManifestError
from extender_service.kube.types.core import ObjectMeta
from extender_service.kube.types.storage import ClaimReference, CSISource, PersistentVolume, PersistentVolumeSpec, Phase
from tests.support.storage_objects import BIND_COMPLETED, make_claim, make_class, make_volume

NODE = """
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{allocatable: {{cpu: "4", pods: "10"}}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: "{node}"
  containers: [{{image: nginx}}]
"""


def node(name: str) -> str:
    return NODE.format(name=name)


def pod(name: str, on: str = "") -> str:
    return POD.format(name=name, node=on)


class Files:
    """Two cluster files and the cluster that they describe."""

    def __init__(self, folder: Path) -> None:
        self.paths = [folder / "nodes.yaml", folder / "pods.yaml"]
        self.cluster = Cluster()
        self.files = ClusterFile(self.cluster, self.paths)
        self._written = 0

    def write(self, nodes: str, pods: str) -> None:
        self._written += 1
        for path, text in zip(self.paths, (nodes, pods), strict=True):
            path.write_text(text)
            # As if time had passed: a file system may tell times of the same moment as equal.
            os.utime(path, (self._written, self._written))

    def load(self, *documents: str) -> None:
        self.write("---\n".join(documents), "")
        self.files.load()

    @property
    def state(self) -> tuple[list[str], list[tuple[str, str]]]:
        """Names of the nodes, and names of the pods with their nodes."""
        pods = [(facts.name, facts.node_name) for facts in self.cluster.pods.facts if facts is not None]
        return sorted(self.cluster.node_names()), sorted(pods)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def bind(files: Files, name: str, node_name: str, uid: str = "") -> None:
    asyncio.run(files.files.bind_pod("default", name, uid, node_name))


def test_the_cluster_is_what_the_files_say_together(files: Files) -> None:
    files.write(node("a") + "---" + node("b"), pod("web", "a") + "---" + pod("new"))
    files.files.load()
    assert files.state == (["a", "b"], [("new", ""), ("web", "a")])
    assert [each.metadata.name for each in files.files.nodes] == ["a", "b"]
    assert [each.metadata.name for each in files.files.pods] == ["web", "new"]


def test_what_a_file_does_not_say_any_more_is_gone(files: Files) -> None:
    files.load(node("a"), node("b"), pod("web", "a"), pod("old", "b"))
    files.load(node("b"), pod("web", "b"))
    assert files.state == (["b"], [("web", "b")])


@pytest.mark.parametrize(("minor", "cpu_milli"), [(33, 0), (34, 2000), (37, 2000)])
def test_a_pod_requests_as_a_whole_what_it_is_limited_to(tmp_path: Path, minor: int, cpu_milli: int) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(pod("p", on="a") + '  resources: {limits: {cpu: "2"}}\n')
    cluster = Cluster(rules_of(minor))
    ClusterFile(cluster, [file]).load()
    slot = cluster.slot_of(("default", "p"))
    assert slot is not None
    requests = cluster.pods.request_sets.values[cluster.pods[slot].requests]
    assert requests is not None
    assert dict(requests.amounts).get("cpu", 0) == cpu_milli


def test_services_and_namespaces_are_those_of_the_files(files: Files) -> None:
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}}\n"
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n"
    files.load(service, namespace)
    workloads = files.cluster.workloads
    assert list(workloads.service_selectors("default", {"app": "web"})) == [{"app": "web"}]
    assert workloads.namespace_labels("shop") == {"team": "a"}
    files.load(node("a"))
    assert list(workloads.service_selectors("default", {"app": "web"})) == []
    assert workloads.namespace_labels("shop") == {}


def test_a_file_that_cannot_be_read_changes_nothing(files: Files) -> None:
    files.load(node("a"), pod("web", "a"))
    with pytest.raises(ManifestError, match=r"nodes\.yaml"):
        files.load(node("b"), "kind: [")
    with pytest.raises(ManifestError, match="many"):
        files.load(node("b"), node("c").replace('"4"', "many"))
    files.paths[0].unlink()
    with pytest.raises(ManifestError, match=r"nodes\.yaml"):
        files.files.load()
    assert files.state == (["a"], [("web", "a")])
    assert [each.metadata.name for each in files.files.nodes] == ["a"]


def test_kinds_that_nobody_reads_are_counted(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        files.load(*(f"apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: w{n}}}\n" for n in range(2)))
    (record,) = caplog.records
    assert record.getMessage() == "objects of a kind that scheduling does not read"
    assert (vars(record)["kind"], vars(record)["count"]) == ("example.com/v1/Widget", 2)


def warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [vars(record) for record in caplog.records if record.levelno == logging.WARNING]


def test_a_field_that_is_misspelled_is_logged_with_the_likely_right_one(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    files.load(node("a").replace("metadata: {", "metadata: {lables: {gpu: present}, "), pod("web"))
    [warning] = warnings(caplog)
    assert warning["message"] == "Kubernetes has no such field: it is ignored"
    assert warning["file"] == f"{files.paths[0]}: document 1"
    assert warning["object"] == "Node a"
    assert warning["field"] == "metadata.lables"
    assert warning["did_you_mean"] == "labels"


def test_a_field_that_is_like_no_other_is_logged(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    files.load(node("a") + "xyzzy: 1\n")
    assert [(warning["field"], "did_you_mean" in warning) for warning in warnings(caplog)] == [("xyzzy", False)]


def test_many_unknown_fields_are_logged_in_part_and_counted(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    files.load(node("a") + "".join(f"unknown{number}: 1\n" for number in range(25)))
    *each, last = warnings(caplog)
    assert [warning["field"] for warning in each] == [f"unknown{number}" for number in range(20)]
    assert (last["message"], last["count"]) == ("more fields that Kubernetes does not have", 5)


def test_an_unknown_field_that_stays_in_a_file_is_not_logged_again(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    files.load(node("a") + "sepc: {}\n")
    files.load(node("a") + "sepc: {}\nstauts: {}\n")
    files.load(node("a"))
    files.load(node("a") + "sepc: {}\n")
    assert [warning["field"] for warning in warnings(caplog)] == ["sepc", "stauts", "sepc"]


def test_a_pod_is_read_by_name(files: Files) -> None:
    files.load(pod("web"))
    read = asyncio.run(files.files.get_pod("default", "web"))
    assert read is not None
    assert read.metadata.name == "web"
    assert asyncio.run(files.files.get_pod("default", "other")) is None
    assert asyncio.run(files.files.get_pod("other", "web")) is None


def test_a_pod_stays_bound_until_a_file_changes(files: Files) -> None:
    files.load(node("a"), pod("web"))
    bind(files, "web", "a")
    assert files.state == (["a"], [("web", "a")])
    read = asyncio.run(files.files.get_pod("default", "web"))
    assert read is not None
    assert read.spec.node_name == "a"
    files.load(node("a"), pod("web"))
    assert files.state == (["a"], [("web", "")])


@pytest.mark.parametrize(
    ("name", "uid", "on", "status", "reason", "says"),
    [
        ("other", "", "a", 404, "NotFound", 'pods "other" not found'),
        ("web", "another", "a", 409, "Conflict", "the UID of pod web is default/web, not another"),
        ("web", "", "b", 404, "NotFound", 'nodes "b" not found'),
    ],
)
def test_what_an_api_server_would_refuse_is_refused(
    files: Files, name: str, uid: str, on: str, status: int, reason: str, says: str
) -> None:
    files.load(node("a"), pod("web"))
    with pytest.raises(ApiError) as raised:
        bind(files, name, on, uid)
    assert (raised.value.status_code, raised.value.reason, raised.value.message) == (status, reason, says)
    assert files.state == (["a"], [("web", "")])


# Files that change.


def follow(files: Files, steps: list[tuple[Callable[[], None], Callable[[], bool]]]) -> None:
    """Follow the files while things happen, each until something holds."""

    async def happen() -> None:
        following = asyncio.create_task(files.files.follow())
        async with asyncio.timeout(10):
            for happens, holds in steps:
                happens()
                while not holds():
                    await asyncio.sleep(0.001)
        following.cancel()

    asyncio.run(happen())


def test_files_are_read_again_when_they_change(
    files: Files, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("extender_service.cluster.sources.cluster_file.POLL_SECONDS", 0.001)
    files.load(node("a"))

    def warned() -> bool:
        return any(record.levelno == logging.WARNING for record in caplog.records)

    caplog.set_level(logging.INFO)
    follow(
        files,
        [
            (lambda: files.write(node("b"), pod("web", "b")), lambda: files.state == (["b"], [("web", "b")])),
            (lambda: files.write("kind: [", ""), warned),
            (files.paths[1].unlink, lambda: len(caplog.records) >= 3),
            (lambda: files.write(node("c"), ""), lambda: files.state == (["c"], [])),
        ],
    )
    reading, *failing = caplog.records[:3]
    assert (reading.message, vars(reading)["nodes"], vars(reading)["pods"]) == ("the cluster file has changed", 1, 1)
    for record in failing:
        assert record.message.startswith(
            f"the cluster file cannot be read, its last good state stays: {files.paths[0]}: "
        )


def test_files_that_stay_the_same_are_not_read_again(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that was bound meanwhile stays bound."""
    monkeypatch.setattr("extender_service.cluster.sources.cluster_file.POLL_SECONDS", 0.001)
    files.load(node("a"), pod("web"))
    looked = 0
    read_stamps = files.files._read_stamps

    def counting() -> list[tuple[int, int] | None]:
        nonlocal looked
        looked += 1
        return read_stamps()

    monkeypatch.setattr(files.files, "_read_stamps", counting)
    bind(files, "web", "a")
    follow(files, [(lambda: None, lambda: looked >= 3)])
    assert files.state == (["a"], [("web", "a")])


CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: fast, resources: {requests: {storage: 1Gi}}}
"""
STORAGE_CLASS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: csi.example.com
"""


def test_a_claim_and_the_volume_that_was_found_for_it_are_bound(files: Files) -> None:
    volume, claim = make_volume("v"), make_claim("data")
    files.cluster.apply_storage(volume)
    files.cluster.apply_storage(claim)
    wanted = make_volume("v", claim=ClaimReference("default", "data", "uid-of-data"))

    asyncio.run(files.files.write_volume(wanted))

    assert files.cluster.storage.volume("v") == structs.replace(wanted, status=Phase("Bound"))
    assert files.cluster.storage.claim("default", "data") == make_claim("data", "v", phase="Bound")


def test_a_claim_that_waits_for_a_provisioner_gets_a_volume_as_it_asks(files: Files) -> None:
    claim = make_claim("data", class_name="fast", size="2Gi", modes=["ReadWriteMany"], annotations={"note": "mine"})
    claim = structs.replace(claim, spec=structs.replace(claim.spec, volume_mode="Block"))
    for item in (claim, make_class("fast", "csi.example.com")):
        files.cluster.apply_storage(item)

    asyncio.run(files.files.write_claim(claim))

    made = "pvc-uid-of-data"
    spec = PersistentVolumeSpec(
        csi=CSISource("csi.example.com", made),
        capacity={"storage": "2Gi"},
        access_modes=("ReadWriteMany",),
        claim_ref=ClaimReference("default", "data", "uid-of-data"),
        storage_class_name="fast",
        volume_mode="Block",
    )
    assert files.cluster.storage.volume(made) == PersistentVolume(ObjectMeta(name=made), spec, Phase("Bound"))
    bound = files.cluster.storage.claim("default", "data")
    assert bound is not None
    assert (bound.is_bound, bound.spec.volume_name, bound.status) == (True, made, Phase("Bound"))
    assert bound.metadata.annotations == {"note": "mine", BIND_COMPLETED: "yes"}


def test_the_volume_made_for_a_claim_without_uid_goes_by_the_claims_name(files: Files) -> None:
    files.load(CLAIM)
    claim = files.cluster.storage.claim("default", "data")
    assert claim is not None
    asyncio.run(files.files.write_claim(claim))
    made = files.cluster.storage.volume("pvc-default-data")
    assert made is not None
    assert made.spec.csi == CSISource("", "pvc-default-data")


def test_storage_is_what_the_files_say(files: Files) -> None:
    files.load(CLAIM, STORAGE_CLASS)
    storage = files.cluster.storage
    claim, storage_class = storage.claim("default", "data"), storage.storage_class("fast")
    assert claim is not None
    assert (claim.class_name, claim.request) == ("fast", "1Gi")
    assert storage_class is not None
    assert storage_class.volume_binding_mode == "Immediate"
    files.load(STORAGE_CLASS)
    assert storage.claim("default", "data") is None
    assert storage.storage_class("fast") is not None
