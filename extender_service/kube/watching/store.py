"""What a reflector fills. In a module of its own, for stores that are filled without an API server."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from extender_service.kube.types.keys import Key

_T_contra = TypeVar("_T_contra", contravariant=True)


class Store(Protocol[_T_contra]):
    """What a reflector fills. The same change may come twice, and an object again under another UID."""

    def apply(self, obj: _T_contra) -> None:
        """Take in an object that is new, changed or unchanged."""

    def remove(self, key: Key) -> None:
        """Drop the object with this key, if there is one."""

    def keys(self) -> Iterable[Key]:
        """Return the keys of all objects held."""
