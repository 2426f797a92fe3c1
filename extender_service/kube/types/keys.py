"""Namespace and name, by which the objects of a kind are told apart."""

from typing import Protocol

from extender_service.kube.types.core import Metadata

Key = tuple[str, str]
"""Namespace and name; the namespace of cluster-scoped objects is empty."""


class ApiObject(Protocol):
    """Anything with metav1.ObjectMeta, or its part that all objects need."""

    @property
    def metadata(self) -> Metadata:
        """The object's metadata."""


def key_of(obj: ApiObject) -> Key:
    """Return the namespace and name of an object."""
    return obj.metadata.namespace, obj.metadata.name
