"""How many files this process may have open; each connection counts as one."""

import resource


def raise_limit() -> int:
    """Raise the soft limit to the hard one, as Go programs do, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
