"""Classes of resource names (pkg/apis/core/v1/helper/helpers.go, pkg/scheduler/util/utils.go)."""

from extender_service.caches import cached
from extender_service.kube.parsing.label_syntax import label_key_faults

_NATIVE = "kubernetes.io/"
_QUOTA_PREFIX = "requests."
# A prefix, a slash, and a name.
_LONGEST_NAME = 253 + 1 + 63


@cached("extended resource names", most_entries=512, most_entry_bytes=2 << 10, most_size=_LONGEST_NAME)
def is_extended_resource(name: str) -> bool:
    """Return whether `name` is an extended resource, such as nvidia.com/gpu (IsExtendedResourceName).

    It must be outside kubernetes.io, and stay a valid name with the prefix of quotas, `requests.`.
    """
    is_native = "/" not in name or _NATIVE in name
    return not is_native and not name.startswith(_QUOTA_PREFIX) and not label_key_faults(_QUOTA_PREFIX + name)


@cached("scalar resource names", most_entries=512, most_entry_bytes=2 << 10, most_size=_LONGEST_NAME)
def is_scalar_resource(name: str) -> bool:
    """Return whether scheduling counts `name` besides cpu, memory and ephemeral-storage (IsScalarResourceName)."""
    return is_extended_resource(name) or name.startswith(("hugepages-", "attachable-volumes-")) or _NATIVE in name
