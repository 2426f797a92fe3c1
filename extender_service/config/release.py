"""The release of Kubernetes that this version of the service follows."""

from typing import NamedTuple

KUBERNETES_VERSION = "v1.31.1"


class FeatureGates(NamedTuple):
    """The feature gates that the meaning of a configuration depends on, with their values in that release."""

    # VolumeBinding scores, by the shape in its arguments.
    volume_capacity_priority: bool = False


FEATURE_GATES = FeatureGates()
