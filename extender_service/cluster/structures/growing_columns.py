"""Tables made of columns: arrays with an entry per row, which grow as rows are added.

The class of a table declares each column once, in its body:

    class Machines(GrowingColumns):
        exists = column(np.bool_)
        offered = column(np.int64, by_dimension=True)

Each table then has an array of that name. Growing, widening and copying a table follow the declarations.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

V = TypeVar("V", bound=np.generic)


class _Declaration(NamedTuple):
    dtype: type[np.generic]
    empty: object
    by_dimension: bool

    def shape(self, capacity: int, dimension_count: int) -> tuple[int, ...]:
        return (dimension_count, capacity) if self.by_dimension else (capacity,)

    def array(self, shape: tuple[int, ...]) -> NDArray[Any]:
        return np.full(shape, self.empty, self.dtype)


def column(dtype: type[V], *, empty: object = 0, by_dimension: bool = False) -> NDArray[V]:
    """Declare a column. Each table has an array under its name: (row), or (dimension, row) for one `by_dimension`.

    `empty` is the value of a row that was never used.
    """
    return cast("NDArray[V]", _Declaration(dtype, empty, by_dimension))


class GrowingColumns:
    """Base of tables whose columns are declared with `column`, and have room for `capacity` rows."""

    _declared: ClassVar[Mapping[str, _Declaration]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, _Declaration)}
        cls._declared = {**cls._declared, **own}
        # A class without the attribute, as after `self.name = ...` in a constructor: so access is as fast.
        for name in own:
            delattr(cls, name)

    def __init__(self, capacity: int, dimension_count: int = 0) -> None:
        for name, declaration in self._declared.items():
            setattr(self, name, declaration.array(declaration.shape(capacity, dimension_count)))

    def resize_columns(self, capacity: int, dimension_count: int = 0) -> None:
        """Make room for so many rows and dimensions, neither of them fewer than before."""
        for name, declaration in self._declared.items():
            before: NDArray[Any] = getattr(self, name)
            shape = declaration.shape(capacity, dimension_count)
            if shape != before.shape:
                larger = declaration.array(shape)
                larger[tuple(map(slice, before.shape))] = before
                setattr(self, name, larger)

    def copy_columns_to(self, twin: Self) -> None:
        """Give another table of this class a copy of each column, in place of its own."""
        for name in self._declared:
            setattr(twin, name, getattr(self, name).copy())
