"""The release of Kubernetes that this version of the service follows."""

from typing import NamedTuple

KUBERNETES_VERSION = "v1.31.1"


class FeatureGates(NamedTuple):
    """The feature gates that change what is decided, with their values in that release."""

    # VolumeBinding scores, by the shape in its arguments.
    volume_capacity_priority: bool = False
    # A change wakes a rejected pod only if a plugin that rejected it says that this change can help.
    scheduler_queueing_hints: bool = False


FEATURE_GATES = FeatureGates()
