import json
from collections import Counter
from pathlib import Path

import pytest

from extender_service.kube.parsing.manifests import ManifestError, Manifests, read_manifests
from extender_service.kube.types.core import Node, Pod


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.yaml"


def read(file: Path, text: str | bytes) -> Manifests:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_manifests([file])


def error_of(file: Path, text: str | bytes) -> str:
    with pytest.raises(ManifestError) as error:
        read(file, text)
    message = str(error.value)
    assert message.startswith(f"{file}: ")
    assert "\n" not in message
    return message.removeprefix(f"{file}: ")


def test_yaml_documents_and_lists_are_read_alike(file: Path) -> None:
    manifests = read(
        file,
        """
apiVersion: v1
kind: Node
metadata: {name: first}
---
# only a comment
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: second}
- apiVersion: v1
  kind: PodList
  items:
  - metadata: {name: web, namespace: shop}
  - metadata: {name: db}
""",
    )
    assert list(manifests.of(Node)) == ["first", "second"]
    assert list(manifests.of(Pod)) == ["shop/web", "default/db"]


def test_json_is_read_as_the_same_yaml(file: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "creationTimestamp": None, "labels": {"app": "web"}},
        "spec": {"priority": 5, "containers": [{"image": "nginx", "resources": {"limits": {"cpu": 0.5}}}]},
    }
    document = {"apiVersion": "v1", "kind": "List", "items": [pod]}
    from_json = read(file, " \n" + json.dumps(document))
    from_yaml = read(file, f"---\n{json.dumps(document)}\n")
    assert from_json.of(Pod) == from_yaml.of(Pod)
    assert from_json.of(Pod)["default/web"].spec.containers[0].resources.requests == {"cpu": 0.5}


@pytest.mark.parametrize("form", ["%s", '{"apiVersion": "v1", "kind": "List", "items": [%s]}'], ids=["pod", "list"])
def test_a_pod_in_json_is_read_and_checked_however_deeply_its_managed_fields_are_nested(file: Path, form: str) -> None:
    for levels in (*range(800, 1000, 3), 9_000):
        fields = '[{"fieldsV1":' + '{"f:x":' * levels + "{}" + "}" * levels + "}]"
        pod = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","managedFields":%s},"stauts":{},"spec":%s}'
        manifests = read(file, form % (pod % (fields, '{"priority":5}')))
        assert manifests.of(Pod)["default/web"].spec.priority == 5
        assert [field.path for field in manifests.unknown_fields] == ["stauts"]


def test_a_list_without_items_is_empty(file: Path) -> None:
    assert read(file, '{"apiVersion": "v1", "kind": "PodList", "items": null}').of(Pod) == {}


def test_an_unknown_field_is_found_once_for_each_kind_and_file(tmp_path: Path) -> None:
    paths = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for path in paths:
        wrong = ", ".join(f"{{metadata: {{name: p{number}, lables: {{}}}}}}" for number in (1, 2))
        path.write_text(f"---\n---\n{{apiVersion: v1, kind: PodList, items: [{{metadata: {{name: p0}}}}, {wrong}]}}")
    assert read_manifests(paths).unknown_fields == [
        (f"{path}: document 2, item 2", "Pod default/p1", "metadata.lables", "labels") for path in paths
    ]


def test_a_list_whose_items_are_misspelled_does_not_just_look_empty(file: Path) -> None:
    manifests = read(file, '{"apiVersion": "v1", "kind": "PodList", "itmes": [{"metadata": {"name": "a"}}]}')
    assert manifests.unknown_fields == [(f"{file}: document 1", "PodList", "itmes", "items")]


def test_an_empty_file_holds_nothing(file: Path) -> None:
    manifests = read(file, "")
    assert not manifests.of(Pod)
    assert not manifests.of(Node)


def test_other_kinds_are_counted(file: Path) -> None:
    manifests = read(
        file,
        """
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: b}}
---
{apiVersion: example.com/v1, kind: Pod, metadata: {name: c}}
""",
    )
    assert manifests.unknown == Counter({("apps/v1", "Deployment"): 2, ("example.com/v1", "Pod"): 1})
    assert manifests.of(Pod) == {}


def test_the_later_of_two_objects_of_one_name_counts(tmp_path: Path) -> None:
    paths = []
    for priority in (1, 2):
        paths.append(tmp_path / f"{priority}.yaml")
        paths[-1].write_text(
            f"---\n{{apiVersion: v1, kind: Pod, metadata: {{name: web}}, spec: {{priority: {priority}}}}}"
        )
    assert read_manifests(paths).of(Pod)["default/web"].spec.priority == 2
    assert read_manifests(paths[::-1]).of(Pod)["default/web"].spec.priority == 1


def test_a_namespace_makes_another_object_of_a_pod_but_not_of_a_node(file: Path) -> None:
    manifests = read(
        file,
        """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: web}}
- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}
- {apiVersion: v1, kind: Node, metadata: {name: node}}
- {apiVersion: v1, kind: Node, metadata: {name: node, namespace: shop}}
""",
    )
    assert list(manifests.of(Pod)) == ["default/web", "shop/web"]
    assert list(manifests.of(Node)) == ["node"]


def test_plain_scalars_mean_what_they_mean_to_kubectl(file: Path) -> None:
    manifests = read(
        file,
        """
apiVersion: v1
kind: Pod
metadata:
  name: web
  creationTimestamp: 2024-01-01T00:00:00Z
  labels: {empty: , version: 1.2.3, date: 2024-01-01}
  annotations: {time: 12:30, 80: http}
spec:
  priority: 1_000
  containers:
  - resources: {requests: {cpu: .5, memory: 1e9, example.com/gpu: 0x10}}
""",
    )
    pod = manifests.of(Pod)["default/web"]
    assert pod.metadata.creation_timestamp == "2024-01-01T00:00:00Z"
    assert pod.metadata.labels == {"empty": "", "version": "1.2.3", "date": "2024-01-01"}
    assert pod.metadata.annotations == {"time": "12:30", "80": "http"}
    assert pod.spec.priority == 1000
    assert pod.spec.containers[0].resources.requests == {"cpu": 0.5, "memory": 1e9, "example.com/gpu": 16}


BILLION_LAUGHS = "a0: &a0 [lol]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2", "line 2, column 2: did not find expected ',' or ']'"),
        (b"a: \xff", "unacceptable character #x00ff: invalid leading UTF-8 octet"),
        ("a: !!python/name:x 1", "line 1, column 4: could not determine a constructor for the tag"),
        ("[" * 100_000, "the YAML is nested too deeply"),
        ('{"a": ' + "[" * 100_000, "document 1: the input is nested too deeply"),
        ("a: &a [*a]", "line 1: an anchor's value contains itself"),
        (BILLION_LAUGHS, "with its aliases replaced, the document has more than 16,777,216 bytes; use fewer aliases"),
        ("true: 1", "document 1: Only dicts with str-like or number-like keys are supported"),
        ('{"apiVersion": "v1", "kind"}', "document 1: JSON is malformed: expected ':' (byte 27)"),
        ("- a", "document 1: Expected `object`, got `array`"),
        ("kind: Pod", "document 1: apiVersion and kind must be given"),
        ("apiVersion: v1\nkind: Pod", "document 1: metadata.name must be given"),
        (
            POD + "spec: {priority: high}",
            "document 1: Pod default/web: Expected `int`, got `str` - at `$.spec.priority`",
        ),
        (
            "---\n---\napiVersion: v1\nkind: NodeList\nitems: [{metadata: {name: a}}, {metadata: {name: b}, spec: 5}]",
            "document 2, item 2: Node b: Expected `object`, got `int` - at `$.spec`",
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {gpu: true}}",
            "document 1: Node a: Expected `str`, got `bool` - at `$.metadata.labels[...]` (in YAML, text that",
        ),
        (
            POD + "spec: {containers: [{}, {resources: {requests: {cpu: 1K}}}]}",
            "document 1: Pod default/web: quantity '1K' has an unknown suffix 'K' - at `$.spec.containers[1].resources",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(file: Path, text: str | bytes, message: str) -> None:
    assert error_of(file, text).startswith(message)


def test_a_missing_file_is_named(file: Path) -> None:
    with pytest.raises(ManifestError) as error:
        read_manifests([file])
    assert str(error.value) == f"{file}: cannot be read: No such file or directory"
