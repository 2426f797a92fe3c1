import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Raw, inspect

from extender_service.kube.parsing import known_fields
from extender_service.kube.parsing.known_fields import FieldCheck, UnknownField, struct_of
from extender_service.kube.parsing.manifests import KINDS
from tests.known_fields.__main__ import fields_of, structs_of, table

# As kubectl prints a pod, shortened; scheduling reads few of these fields.
PRINTED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "creationTimestamp": None,
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:anything": {}}}, "fieldsType": "FieldsV1"}],
        "labels": {"any.example.com/key": "value"},
        "ownerReferences": [{"kind": "ReplicaSet", "blockOwnerDeletion": True}],
    },
    "spec": {
        "affinity": {"nodeAffinity": None},
        "containers": [
            {
                "name": "web",
                "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "livenessProbe": {"httpGet": {"port": "http", "httpHeaders": [{"name": "a", "value": "b"}]}},
                "resources": {"limits": {"example.com/gpu": 1}, "claims": [{"name": "gpu"}]},
                "volumeMounts": [{"mountPath": "/a", "recursiveReadOnly": "Disabled"}],
            }
        ],
        "ephemeralContainers": [{"targetContainerName": "web"}],
        "hostUsers": False,
        "resourceClaims": [{"name": "gpu", "source": {"resourceClaimName": "of-1.30"}, "resourceClaimName": "of-1.31"}],
        "resources": {"requests": {"cpu": "1"}},
        "volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"items": [{"key": "a"}]}}]}}],
        "overhead": {"any-resource": "1"},
        "workloadRef": {"name": "of-1.35"},
    },
    "status": {"containerStatuses": [{"state": {"running": {"startedAt": "now"}}}], "qosClass": "Burstable"},
}


def found(*objects: dict[str, Any], check: FieldCheck | None = None) -> list[UnknownField]:
    check = check or FieldCheck()
    for each in objects:
        source = Raw(json.dumps(each).encode())
        check.check(source, each["apiVersion"], each["kind"], place="here", subject=each["metadata"]["name"])
    return check.found


def pod(name: str = "web", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **more}


def paths(*objects: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(field.path, field.suggestion) for field in found(*objects)]


def test_fields_that_scheduling_does_not_read_are_known() -> None:
    assert found(PRINTED) == []


@pytest.mark.parametrize(
    ("wrong", "path", "suggestion"),
    [
        (pod() | {"metadata": {"name": "web", "lables": {}}}, "metadata.lables", "labels"),
        (pod(spec={"nodeSelctor": {}}), "spec.nodeSelctor", "nodeSelector"),
        (pod(spec={"nodename": "a"}), "spec.nodename", "nodeName"),
        (pod(sepc={}), "sepc", "spec"),
        (pod(spec={"containers": [{}, {"imgae": "a"}]}), "spec.containers[1].imgae", "image"),
        (pod(spec={"containers": [None, {"imgae": "a"}]}), "spec.containers[1].imgae", "image"),
        (pod(spec={"xyzzy": 1}), "spec.xyzzy", None),
        (pod(metadata={"name": "web", "example.com/team": "a"}), "metadata.example.com/team", None),
        (
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"taint": []}},
            "spec.taint",
            "taints",
        ),
        (
            {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "a"}, "provisoner": "b"},
            "provisoner",
            "provisioner",
        ),
    ],
)
def test_a_field_that_kubernetes_does_not_have_is_found_with_the_likely_right_one(
    wrong: dict[str, Any], path: str, suggestion: str | None
) -> None:
    assert paths(wrong) == [(path, suggestion)]


def test_all_unknown_fields_of_an_object_are_found() -> None:
    wrong = pod(spec={"containers": [{"imgae": "a", "portz": []}], "tolerations": [{"efect": "NoSchedule"}]})
    assert paths(wrong) == [
        ("spec.containers[0].imgae", "image"),
        ("spec.containers[0].portz", "ports"),
        ("spec.tolerations[0].efect", "effect"),
    ]


def test_a_field_counts_once_for_a_kind_where_it_occurs_first() -> None:
    first = pod("first", spec={"containers": [{}, {"imgae": "a"}, {"imgae": "b"}]})
    second = pod("second", spec={"containers": [{"imgae": "a"}], "hostnames": "a"})
    assert [(field.subject, field.path) for field in found(first, second)] == [
        ("first", "spec.containers[1].imgae"),
        ("second", "spec.hostnames"),
    ]


@pytest.mark.parametrize("spec", [None, 5, "text", [], {"containers": 5}, {"containers": [5, [], None]}])
def test_values_of_another_form_are_not_this_checks_concern(spec: object) -> None:
    assert found(pod(spec=spec)) == []


def test_a_name_that_is_not_utf_8_is_left_to_reading_the_object() -> None:
    check = FieldCheck()
    check.check(Raw(b'{"spec": {"\xff": 1, "sepc": 1}, "stauts": 1}'), "v1", "Pod", place="", subject="")
    assert [field.path for field in check.found] == ["stauts"]


def test_of_many_objects_of_a_kind_the_first_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_fields, "MOST_CHECKED", 2)
    check = FieldCheck()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "stauts": {}}
    found(pod("a"), pod("b"), pod("c", sepc={}), node, check=check)
    assert [field.subject for field in check.found] == ["n"]


def read_fields(kind: inspect.Type, struct: str) -> Iterator[tuple[str, str, str]]:
    """The fields that scheduling reads: the struct that should have each, its name, and the struct that it holds."""
    match kind:
        case inspect.StructType():
            for field in kind.fields:
                held = known_fields._table().get(struct, {}).get(field.encode_name)
                yield struct, field.encode_name, held if held is not None else "no such field"
                if held:
                    yield from read_fields(field.type, held.removeprefix("[]"))
        case inspect.UnionType():
            for member in kind.types:
                yield from read_fields(member, struct)
        case inspect.VarTupleType():
            yield from read_fields(kind.item_type, struct)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_that_is_read_is_known(kind: tuple[str, str]) -> None:
    fields = list(read_fields(inspect.type_info(KINDS[kind]), struct_of(*kind)))
    assert ("metadata", "meta/v1.ObjectMeta") in {(name, held) for _, name, held in fields}
    assert [(struct, name) for struct, name, held in fields if held == "no such field"] == []


# How the table is made.

CORE = """
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type Pod struct {
	metav1.TypeMeta `json:",inline"`
	// Comments may speak of `json:"nothing"`.
	// +optional
	Spec PodSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	Hidden string `json:"-"`
}

type PodSpec struct {
	Containers []Container `json:"containers" patchStrategy:"merge" protobuf:"bytes,2,rep,name=containers"`
	Overhead ResourceList `json:"overhead,omitempty"`
	Size *resource.Quantity `json:"size,omitempty"`
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

type ResourceList map[string]resource.Quantity

type Container struct {
	Name string `json:"name"`
}
"""
META = """
package v1

type TypeMeta struct {
	Kind string `json:"kind,omitempty"`
}

type LabelSelector struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

type Time struct {
	time.Time `protobuf:"-"`
}
"""


def test_the_table_has_the_json_names_of_gos_types() -> None:
    structs = structs_of(CORE, "core/v1") | structs_of(META, "meta/v1")
    assert fields_of("meta/v1.Time", structs) == {}
    assert table([structs], ["core/v1.Pod"]) == {
        "core/v1.Container": {"name": ""},
        "core/v1.Pod": {"kind": "", "spec": "core/v1.PodSpec"},
        "core/v1.PodSpec": {
            "containers": "[]core/v1.Container",
            "overhead": "",
            "selector": "meta/v1.LabelSelector",
            "size": "",
        },
        "meta/v1.LabelSelector": {"matchLabels": ""},
    }


def test_the_table_has_the_fields_of_all_versions() -> None:
    older = structs_of('type Pod struct {\n\tOld string `json:"old"`\n}\n', "core/v1")
    newer = structs_of('type Pod struct {\n\tNew string `json:"new"`\n}\n', "core/v1")
    assert table([older, newer], ["core/v1.Pod"]) == {"core/v1.Pod": {"new": "", "old": ""}}
