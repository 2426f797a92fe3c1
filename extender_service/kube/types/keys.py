"""Keys of objects: namespace and name identify an object of a kind."""

from typing import Protocol

from extender_service.kube.types.core import Metadata

Key = tuple[str, str]
"""Namespace and name; the namespace of cluster-scoped objects is empty."""


class ApiObject(Protocol):
    """Any object with metav1.ObjectMeta, or at least the fields of `Metadata`."""

    @property
    def metadata(self) -> Metadata:
        """The object's metadata."""


def key_of(obj: ApiObject) -> Key:
    """Return the namespace and name of an object."""
    return obj.metadata.namespace, obj.metadata.name
