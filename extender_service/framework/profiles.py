"""The profiles of a configuration, and which of them decides about a pod."""

import logging
from collections.abc import Iterator, Mapping

from extender_service.framework.profile import Profile
from extender_service.kube.parsing.api_defaults import DEFAULT_SCHEDULER_NAME
from extender_service.kube.types.core import Pod

log = logging.getLogger(__name__)

# Of the scheduler names without a profile, so many are noted. The API server allows names of 253 characters.
MOST_OTHER_NAMES = 100


class Profiles:
    """Profiles by scheduler name; the first decides about pods of any other name.

    `names` are the scheduler names whose nominated pods count.
    """

    def __init__(self, by_name: Mapping[str, Profile]) -> None:
        self._by_name = by_name
        self.names = frozenset(by_name)
        self._other_names: set[str] = set()

    def __iter__(self) -> Iterator[Profile]:
        return iter(self._by_name.values())

    def of(self, pod: Pod) -> Profile:
        """Return the profile of the pod's scheduler name; the first one, with a warning in the log, if none has it."""
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME
        profile = self._by_name.get(name)
        if profile is not None:
            return profile
        profile = next(iter(self._by_name.values()))
        if name not in self._other_names and len(self._other_names) < MOST_OTHER_NAMES:
            self._other_names.add(name)
            log.warning(
                "no profile for this scheduler name, using the first",
                extra={"asked": name, "used": profile.scheduler_name},
            )
        return profile
