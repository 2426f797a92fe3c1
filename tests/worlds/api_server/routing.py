"""Paths of the API: which resource, object and subresource they name."""

from functools import lru_cache
from urllib.parse import unquote

import msgspec

from tests.worlds.api_server import errors
from tests.worlds.api_server.registry import key_of
from tests.worlds.api_server.reviews import GROUPS

_OBJECT_PARTS = 2


class Target(msgspec.Struct, frozen=True):
    """What a path names. `review` is the kind of a review, which is not stored."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str
    review: str

    @property
    def key(self) -> str:
        """The key under which the object is stored, within its kind."""
        return key_of(self.namespace, self.name)


@lru_cache(maxsize=4096)  # clients ask for the same paths again and again
def route(path: str) -> Target:
    """Return what a path names. Raises RefusedError (404)."""
    parts = path.strip("/").split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise errors.path_not_found()
    namespace = ""
    if len(rest) > _OBJECT_PARTS and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    match rest:
        case [plural]:
            name = subresource = ""
        case [plural, name]:
            subresource = ""
        case [plural, name, subresource]:
            pass
        case _:
            raise errors.path_not_found()
    return Target(group, version, namespace, plural, name, subresource, GROUPS.get((group, plural), ""))
