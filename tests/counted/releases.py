"""What the rules of later releases add to a decision: by how many bytecodes it may be longer than v1.31.1's.

Rules are chosen when a plugin is made, so a decision pays only for what its release does in addition. A plugin that is
asked at one more extension point costs some 60 bytecodes in PreFilter and 120 in Score, whatever it does.
"""

from collections.abc import Collection
from typing import NamedTuple

from bench import synthetic
from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR

LATER_MINORS = range(OLDEST_MINOR + 1, NEWEST_MINOR + 1)
CLASSES = (*synthetic.CLASSES, "volumes", synthetic.PREEMPTOR)
_SCORED = (*synthetic.CLASSES, "volumes")


class Added(NamedTuple):
    """The bytecodes that the release 1.`minor` adds to decisions about pods of some classes, and for what."""

    minor: int
    bytecodes: int
    why: str
    classes: Collection[str] = CLASSES


ADDED = (
    Added(33, 25, "NodePorts looks for sidecars"),
    Added(33, 25, "NodeResourcesBalancedAllocation asks whether the pod requests anything", _SCORED),
    Added(34, 85, "DynamicResources runs PreFilter"),
    Added(34, 75, "NodeResourcesFit compares requests with all that a node offers", [synthetic.PREEMPTOR]),
    Added(35, 140, "DynamicResources scores", _SCORED),
    Added(36, 110, "NodeDeclaredFeatures runs PreFilter"),
    Added(36, 20, "NodeResourcesBalancedAllocation and ImageLocality read more", _SCORED),
    Added(37, 60, "NodeName runs PreFilter, and NodeDeclaredFeatures looks at mounts"),
    Added(37, 100, "TaintToleration and NodeUnschedulable run PreFilter"),
    Added(37, 85, "VolumeBinding scores every pod", _SCORED),
    Added(37, 190, "NodeVolumeLimits looks for required drivers, and VolumeBinding for capacity", ["volumes"]),
)


def allowed(pod_class: str, minor: int) -> int:
    """Return by how many bytecodes a decision of the release may be longer than v1.31.1's."""
    return sum(added.bytecodes for added in ADDED if added.minor <= minor and pod_class in added.classes)
