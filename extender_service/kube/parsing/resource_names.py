"""Which resource names mean what (pkg/apis/core/v1/helper/helpers.go, pkg/scheduler/util/utils.go)."""

from functools import lru_cache

from extender_service.kube.parsing.label_syntax import label_key_faults

_NATIVE = "kubernetes.io/"
_QUOTA_PREFIX = "requests."


@lru_cache(maxsize=512)
def is_extended_resource(name: str) -> bool:
    """Tell whether `name` is an extended resource: outside kubernetes.io, and a name that a quota can limit."""
    is_native = "/" not in name or _NATIVE in name
    return not is_native and not name.startswith(_QUOTA_PREFIX) and not label_key_faults(_QUOTA_PREFIX + name)


@lru_cache(maxsize=512)
def is_scalar_resource(name: str) -> bool:
    """Tell whether scheduling counts `name` beside cpu, memory and ephemeral storage (IsScalarResourceName)."""
    return is_extended_resource(name) or name.startswith(("hugepages-", "attachable-volumes-")) or _NATIVE in name
