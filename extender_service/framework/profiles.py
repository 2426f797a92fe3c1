"""The profiles of a configuration, and which of them decides about a pod."""

import logging
from collections.abc import Iterator, Mapping

from extender_service.framework.profile import Profile
from extender_service.kube.parsing.api_defaults import DEFAULT_SCHEDULER_NAME
from extender_service.kube.types.core import Pod

log = logging.getLogger(__name__)

# Callers may send any scheduler names. This bounds how many without a profile are kept, and the characters of each.
MOST_OTHER_NAMES = 100
MOST_CHARACTERS = 253


class Profiles:
    """Profiles by scheduler name; the first decides about pods of any other name.

    `names` are the scheduler names whose nominated pods count: those of the profiles, and any other that a call has
    had. Nominated pods of other schedulers do not count; those place them by themselves.
    """

    def __init__(self, by_name: Mapping[str, Profile]) -> None:
        self._by_name = by_name
        self.names = set(by_name)

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._by_name.values())

    def has(self, scheduler_name: str) -> bool:
        """Return whether one of the profiles is for pods of this scheduler name."""
        return scheduler_name in self._by_name

    def find(self, scheduler_name: str) -> Profile | None:
        """Return the profile for pods of this scheduler name, None if there is none."""
        return self._by_name.get(scheduler_name)

    def of(self, pod: Pod) -> Profile:
        """Return the profile of the pod's scheduler name; the first one, with a warning in the log, if none has it."""
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME
        profile = self._by_name.get(name)
        if profile is not None:
            return profile
        profile = next(iter(self._by_name.values()))
        name = name[:MOST_CHARACTERS]
        if name not in self.names and len(self.names) < len(self._by_name) + MOST_OTHER_NAMES:
            self.names.add(name)
            log.warning(
                "no profile for this scheduler name, using the first",
                extra={"asked": name, "used": profile.scheduler_name},
            )
        return profile
