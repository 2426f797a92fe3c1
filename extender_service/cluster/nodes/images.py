"""The container images that nodes have."""

from functools import reduce
from operator import or_

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.structures.memo import Memo
from extender_service.kube.types.core import ContainerImage

# Of those that decisions ask for and that nodes list in several ways; an image refers to a bit for each row.
_MOST_FOUND = 256
_MOST_FOUND_BYTES = 2 << 20
_NOWHERE: tuple[int, tuple[ContainerImage, ...]] = (0, ())


class Image(msgspec.Struct, frozen=True, gc=False):
    """An image under one of its names: its size, and the rows of the nodes that have it as the bits of a number."""

    name: str
    size_bytes: int
    rows: int

    @property
    def node_count(self) -> int:
        """How many nodes have it."""
        return self.rows.bit_count()

    def on_rows(self, capacity: int) -> NDArray[np.bool_]:
        """Return for each row whether its node has the image."""
        bits = np.frombuffer(self.rows.to_bytes((capacity + 7) // 8, "little"), np.uint8)
        return np.unpackbits(bits, count=capacity, bitorder="little").view(np.bool_)


class Images:
    """Images by name, kept once for all nodes that list them in the same way.

    Where nodes disagree on an image's size, the first one to have it counts, for as long as some node has it
    (addNodeImageStates in backend/cache/cache.go).
    """

    def __init__(self) -> None:
        # An image as nodes list it, with all its names: the one that is kept, and its rows.
        self._listed: dict[ContainerImage, tuple[ContainerImage, int]] = {}
        # A name's size, and the images that are listed with it.
        self._by_name: dict[str, tuple[int, tuple[ContainerImage, ...]]] = {}
        self._by_row: dict[int, tuple[ContainerImage, ...]] = {}
        self._changes = 0
        self._found = Memo("images by name", most_entries=_MOST_FOUND, most_bytes=_MOST_FOUND_BYTES)

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> Image | None:
        """Return the image of a name, if a node has it."""
        size_bytes, images = self._by_name.get(name, _NOWHERE)
        if len(images) > 1:
            return self._found.of(self._changes, Images._find, (self,), (name,))
        return Image(name, size_bytes, self._listed[images[0]][1]) if images else None

    def _find(self, name: str) -> Image:
        size_bytes, images = self._by_name[name]
        return Image(name, size_bytes, reduce(or_, (self._listed[image][1] for image in images)))

    def set(self, row: int, images: tuple[ContainerImage, ...]) -> bool:
        """Take over the images of a row's node; returns whether they are others."""
        old = self._by_row.get(row, ())
        if images == old:
            return False
        self._changes += 1
        bit = 1 << row
        for image in dict.fromkeys(old):
            self._remove(image, bit)
        if images:
            # Each node's own copies of the names would take far more memory than all the rest.
            self._by_row[row] = tuple([self._add(image, bit) for image in images])
        else:
            del self._by_row[row]
        return True

    def copy(self) -> "Images":
        """Return images that can be changed without changing these."""
        twin = Images()
        twin._listed = self._listed.copy()
        twin._by_name = self._by_name.copy()
        twin._by_row = self._by_row.copy()
        return twin

    def _add(self, image: ContainerImage, bit: int) -> ContainerImage:
        """Note that a row has an image; returns the equal one that is kept."""
        known = self._listed.get(image)
        if known is not None:
            image, rows = known
            self._listed[image] = (image, rows | bit)
            return image
        self._listed[image] = (image, bit)
        for name in image.names:
            size_bytes, images = self._by_name.get(name, (image.size_bytes, ()))
            self._by_name[name] = (size_bytes, (*images, image))
        return image

    def _remove(self, image: ContainerImage, bit: int) -> None:
        image, rows = self._listed[image]
        if rows != bit:
            self._listed[image] = (image, rows & ~bit)
            return
        del self._listed[image]
        for name in dict.fromkeys(image.names):
            size_bytes, images = self._by_name[name]
            others = tuple([other for other in images if other is not image])
            if others:
                self._by_name[name] = (size_bytes, others)
            else:
                del self._by_name[name]
