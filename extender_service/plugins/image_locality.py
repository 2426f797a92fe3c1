"""ImageLocality: a pod starts sooner where its images are already."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.images import Image
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import MAX_NODE_SCORE, Reach, Score
from extender_service.kube.types.core import Pod

_MEBIBYTE = 1024 * 1024
# Below the first sum of sizes a node scores 0. Above the second, per image, it scores 100.
_MIN_BYTES = 23 * _MEBIBYTE
_MAX_BYTES_PER_IMAGE = 1000 * _MEBIBYTE
_TOO_MANY_BYTES = 2**63


class ImageLocality(Score):
    """Scores by the size of the pod's images that a node has; an image that few nodes have counts for less, so that
    pods do not all run to the node that has it."""

    name: ClassVar[str] = "ImageLocality"
    treats_alike: ClassVar[bool] = True
    reach: ClassVar[Reach] = Reach.NONE

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._counts_volumes = handle.rules.image_volumes
        self._volumes_raise_most = handle.rules.image_volumes_raise_most

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Add up sizes, between the least that matters (0 points) and the most (100)."""
        wanted = tuple([container.image for container in (*pod.spec.init_containers, *pod.spec.containers)])
        raising_most = len(wanted)
        if self._counts_volumes and pod.spec.volumes:
            wanted += tuple([volume.image.reference for volume in pod.spec.volumes if volume.image is not None])
            raising_most = len(wanted) if self._volumes_raise_most else raising_most
        return nodes.remembered(_scores, wanted, raising_most)


def _scores(nodes: NodeView, wanted: Sequence[str], images: int) -> NDArray[np.int64]:
    sized = [
        (image, _scaled_bytes(image, nodes.cluster_size))
        for name in wanted
        if (image := nodes.image(normalized(name))) is not None
    ]
    nothing = _points(0, images)
    # Mostly all of them together are too small, or on too few nodes, to count for anything.
    if not sized or _points(sum([max(size, 0) for _, size in sized]), images) == nothing == 0:
        return np.zeros(len(nodes), np.int64)
    if len(sized) == 1:  # then a node has this, or nothing
        [(image, size_bytes)] = sized
        scores = nodes.has_image(image) * np.int64(_points(size_bytes, images) - nothing)
        return scores + nothing if nothing else scores
    present = np.zeros(len(nodes), np.int64)
    for image, size_bytes in sized:
        present += nodes.has_image(image) * size_bytes
    most = _MAX_BYTES_PER_IMAGE * images
    # In a fifth of the time that np.clip takes for a few hundred nodes.
    counted = np.minimum(np.maximum(present, _MIN_BYTES), most)
    return MAX_NODE_SCORE * (counted - _MIN_BYTES) // (most - _MIN_BYTES)


def _points(present: int, images: int) -> int:
    """Return the score for so many bytes of so many images."""
    most = _MAX_BYTES_PER_IMAGE * images
    return MAX_NODE_SCORE * (min(max(present, _MIN_BYTES), most) - _MIN_BYTES) // (most - _MIN_BYTES)


def normalized(image: str) -> str:
    """Return an image's name as nodes report it: with a tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _scaled_bytes(image: Image, cluster_size: int) -> int:
    """Return the bytes that an image counts for: the more, the more nodes have it."""
    scaled = int(float(image.size_bytes) * (image.node_count / cluster_size))
    # Go on amd64 turns any float beyond int64 into the lowest.
    return scaled if scaled < _TOO_MANY_BYTES else -_TOO_MANY_BYTES
