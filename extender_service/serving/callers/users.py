"""Who calls, as Kubernetes' components see it (authentication.k8s.io/v1 UserInfo)."""

import msgspec


class UserInfo(msgspec.Struct, frozen=True):
    """A user. `extra` has keys with their values."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))
AUTHENTICATED_GROUP = "system:authenticated"
MASTERS_GROUP = "system:masters"


class UnauthenticatedError(Exception):
    """A caller shows credentials that are not valid, or that cannot be checked."""
