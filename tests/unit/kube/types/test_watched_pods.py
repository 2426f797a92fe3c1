from msgspec import inspect

from extender_service.kube.types.core import Pod
from extender_service.kube.types.watched_pods import WatchedPod


def kinds_by_field(kind: inspect.Type, path: str = "") -> dict[str, type[inspect.Type]]:
    """What each field is, at any depth, by its path on the wire."""
    match kind:
        case inspect.UnionType():
            members = [kinds_by_field(member, path) for member in kind.types]
            return {path: found for member in members for path, found in member.items()}
        case inspect.VarTupleType():
            return kinds_by_field(kind.item_type, f"{path}[]")
        case inspect.StructType():
            of_fields = [kinds_by_field(field.type, f"{path}.{field.encode_name}") for field in kind.fields]
            return {path: found for of_field in of_fields for path, found in of_field.items()}
    return {path: type(kind)}


def test_a_watched_pod_is_a_part_of_a_pod() -> None:
    watched, whole = (kinds_by_field(inspect.type_info(kind)) for kind in (WatchedPod, Pod))
    in_bytes = [path for path, kind in watched.items() if kind is inspect.RawType]
    assert set(in_bytes) >= {".metadata.labels", ".spec.containers[].resources", ".spec.containers[].ports"}
    for path in in_bytes:
        del watched[path]
        assert any(of_pod.startswith(path) for of_pod in whole)
    assert watched.items() <= whole.items()
    assert {".metadata.name", ".spec.nodeName", ".spec.overhead", ".status.phase"} <= set(watched)
