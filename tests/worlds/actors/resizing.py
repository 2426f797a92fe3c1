"""What the containers of a pod have while the pod is resized, as its kubelet reports that."""

from collections.abc import Mapping
from random import Random
from typing import Final

from tests.worlds.actors.fitting import Object
from tests.worlds.simulation.timeline import NEVER

# So long the kubelet takes at most to allocate what the spec says, and then to let containers have it.
_ALLOCATES_SECONDS: Final = 3.0
_ACTUATES_SECONDS: Final = 5.0


class ContainerResources:
    """The requests of containers: as allocated by the kubelet, and as they are in fact. Both follow the spec, the one
    after the other, each after a while."""

    def __init__(self, pod: Object) -> None:
        self._allocated = self._actual = _requests(pod)
        self._allocates_at = self._actuates_at = NEVER

    @property
    def next_at(self) -> float:
        """When the next step is due."""
        return min(self._allocates_at, self._actuates_at)

    def follow(self, pod: Object, now: float, random: Random) -> None:
        """Take the steps that are due, and draw when the next ones are."""
        wanted = _requests(pod)
        if now >= self._actuates_at:
            self._actual, self._actuates_at = self._allocated, NEVER
        if now >= self._allocates_at:
            self._allocated, self._allocates_at = wanted, NEVER
        if self._allocated != wanted and self._allocates_at == NEVER:
            self._allocates_at = now + random.uniform(0.0, _ALLOCATES_SECONDS)
        if self._actual != self._allocated and self._actuates_at == NEVER:
            self._actuates_at = now + random.uniform(0.0, _ACTUATES_SECONDS)

    def statuses(self) -> list[Object]:
        """Return what the pod's status says of its containers."""
        return [
            {"name": name, "allocatedResources": allocated, "resources": {"requests": self._actual[name]}}
            for name, allocated in self._allocated.items()
        ]


def _requests(pod: Object) -> Mapping[str, Mapping[str, str]]:
    return {each["name"]: each.get("resources", {}).get("requests", {}) for each in pod["spec"]["containers"]}
