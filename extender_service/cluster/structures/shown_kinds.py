"""Tables by kind, of which some may be hidden."""

from typing import TypeVar

T = TypeVar("T")


class HiddenKindError(LookupError):
    """Objects of a kind that nothing keeps current, so that an empty table would pass for a kind without objects."""


class ShownKinds(dict[type, T]):
    """Tables by kind; raises HiddenKindError for a kind that has none."""

    def __missing__(self, kind: type) -> T:
        raise HiddenKindError(f"{kind.__name__} objects are not watched: name the kind in the plugin's `reads`")
