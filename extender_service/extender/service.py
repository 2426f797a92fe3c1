"""What all verbs share: the profiles, the cluster, and how this service is run beside kube-scheduler."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Literal

from extender_service.cluster.cluster import Cluster
from extender_service.config.defaults import DEFAULT_SCHEDULER_NAME
from extender_service.extender.candidates import CandidateFinder
from extender_service.extender.decider import Decider
from extender_service.extender.leadership import Leadership
from extender_service.extender.second_look import WaitBudget
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import CycleError
from extender_service.kube.objects import Pod

log = logging.getLogger(__name__)

Mode = Literal["beside", "replace"]


class ExtenderService:
    """The state behind the verbs.

    `profiles` are by scheduler name, the first of them for pods of an unknown one. With `is_live`, the cluster follows
    an API server; otherwise it is a file, where nothing is expected to happen by itself. `distrust` tells why the
    cluster cannot be gone by at the moment: half a list, or a state of long ago, overfills nodes. `leadership` tells
    whether this is the pair that works, if there are several.
    """

    def __init__(
        self,
        cluster: Cluster,
        profiles: Mapping[str, Profile],
        *,
        mode: Mode,
        is_live: bool,
        distrust: Callable[[], str | None] = lambda: None,
        leadership: Leadership | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cluster = cluster
        self.profiles = profiles
        self.mode: Mode = mode
        self.is_live = is_live
        self.clock = clock
        self.leadership = leadership
        self._distrust = distrust
        self.wait_budget = WaitBudget(clock)
        self.candidates = CandidateFinder(cluster)
        self.decider = Decider(cluster, profiles, self.candidates, must_score=mode == "replace")
        self._unknown_names: set[str] = set()
        self._told_of_whole_nodes = False

    def require_trust(self) -> None:
        """Raise CycleError while the cluster cannot be gone by, or another pair works."""
        if self.leadership is not None:
            self.require_lead()
        problem = self._distrust()
        if problem is not None:
            raise CycleError(f"extender-service does not know the cluster well enough to decide: {problem}")

    def require_lead(self) -> None:
        """Raise CycleError while another pair of kube-scheduler and service works, or may do so."""
        problem = None if self.leadership is None else self.leadership.problem()
        if problem is not None:
            raise CycleError(f"extender-service places no pods now: {problem}")

    def tell_of_whole_nodes(self) -> None:
        """Warn once where kube-scheduler sends whole nodes beside its own Score plugins."""
        if self.mode == "beside" and self.is_live and not self._told_of_whole_nodes:
            self._told_of_whole_nodes = True
            log.warning(
                "kube-scheduler sends whole nodes: it makes them anew from the answer, without their pods, so its own "
                "Score plugins take them for empty; set nodeCacheCapable: true"
            )

    def profile_for(self, pod: Pod) -> Profile:
        """Return the profile of a pod's scheduler name; the first one, with a word in the log, if it has none."""
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME
        profile = self.profiles.get(name)
        if profile is not None:
            return profile
        profile = next(iter(self.profiles.values()))
        if name not in self._unknown_names and len(self._unknown_names) < 100:
            self._unknown_names.add(name)
            log.warning(
                "no profile for this scheduler name, using the first",
                extra={"asked": name, "used": profile.scheduler_name},
            )
        return profile


def pod_name(pod: Pod) -> str:
    """Return namespace/name."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
