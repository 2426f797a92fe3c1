"""Resource versions: numbers that grow with each change of one etcd, for all kinds together (KEP-5504)."""

# etcd counts its changes in 64 bits.
_MOST_DIGITS = 20


def version_number(resource_version: str) -> int:
    """Return a resource version as a number; 0 for one that is none, which is newer than no other."""
    is_number = resource_version.isascii() and resource_version.isdecimal() and len(resource_version) < _MOST_DIGITS
    return int(resource_version) if is_number else 0


def shows_version(seen: str, version: str) -> bool:
    """Return whether an object that is seen at one resource version has been written at another one by then."""
    return seen == version or 0 < version_number(version) < version_number(seen)
