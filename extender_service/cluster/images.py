"""The container images that nodes have."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.kube.objects import ContainerImage


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
        """Tell for each row whether its node has it."""
        bits = np.frombuffer(self.rows.to_bytes((capacity + 7) // 8, "little"), np.uint8)
        return np.unpackbits(bits, count=capacity, bitorder="little").view(np.bool_)


# Names and sizes of the images of one row.
_Held = tuple[tuple[str, ...], tuple[int, ...]]
_NOTHING: _Held = ((), ())


class Images:
    """Images by name, kept once for all nodes that have them.

    Where nodes disagree on an image's size, the first one to have it counts, for as long as some node has it
    (addNodeImageStates in backend/cache/cache.go).
    """

    def __init__(self) -> None:
        self._by_name: dict[str, Image] = {}
        self._by_row: dict[int, _Held] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> Image | None:
        """Return the image of a name, if a node has it."""
        return self._by_name.get(name)

    def set(self, row: int, images: tuple[ContainerImage, ...]) -> bool:
        """Take over the images of a row's node; returns whether they are others."""
        old = self._by_row.get(row, _NOTHING)
        names = tuple([name for image in images for name in image.names])
        sizes = tuple([image.size_bytes for image in images for _ in image.names])
        if (names, sizes) == old:
            return False
        bit = 1 << row
        for name in old[0]:
            image = self._by_name.get(name)
            if image is not None:
                self._keep(image, image.rows & ~bit)
        for name, size_bytes in zip(names, sizes, strict=True):
            image = self._by_name.get(name) or Image(name, size_bytes, 0)
            self._keep(image, image.rows | bit)
        if names:
            # Each node's own copies of the names would take far more memory than all the rest.
            self._by_row[row] = (tuple([self._by_name[name].name for name in names]), sizes)
        else:
            del self._by_row[row]
        return True

    def copy(self) -> "Images":
        """Return images that can be changed without changing these."""
        twin = Images()
        twin._by_name = self._by_name.copy()
        twin._by_row = self._by_row.copy()
        return twin

    def _keep(self, image: Image, rows: int) -> None:
        if rows == 0:
            del self._by_name[image.name]
        elif rows != image.rows:
            self._by_name[image.name] = Image(image.name, image.size_bytes, rows)
