"""What of the comparison is to run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from extender_service.config.release import OLDEST_MINOR

_SIZES = {"real": (1000, 5000), "stub": (5000, 15000)}
_QUICK_NODES, _QUICK_PODS, _PODS = 200, 300, 5000


@dataclass(frozen=True)
class Choice:
    """Each field narrows the comparison; None leaves everything in."""

    server: str | None = None
    nodes: int | None = None
    pods: int | None = None
    workloads: Sequence[str] | None = None
    programs: Sequence[str] | None = None
    rate: int | None = None  # how many pods arrive a second; all are there at first if None
    profile: Path | None = None  # where to write the stacks of `schedule`
    minor: int = OLDEST_MINOR  # the release of the real API server and of kube-scheduler

    def clusters(self, *, quick: bool) -> Iterator[tuple[str, int]]:
        """Yield the kind of API server and the number of nodes of each cluster."""
        for server, sizes in _SIZES.items():
            if self.server in (None, server):
                chosen = (_QUICK_NODES,) if quick else sizes
                for nodes in chosen if self.nodes is None else (self.nodes,):
                    yield server, nodes

    def pod_count(self, *, quick: bool) -> int:
        """Return how many pods a measurement has."""
        return self.pods or (_QUICK_PODS if quick else _PODS)
