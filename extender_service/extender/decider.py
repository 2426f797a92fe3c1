"""Decisions about the nodes of a request; that about the next of many pods alike is made before it is asked for.

The pods of a ReplicaSet or a Job are asked about one after the other, and between an answer and the next call
kube-scheduler has work of its own. What was decided in that time is the answer only if nothing has changed since.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import structs

from extender_service.cluster.cluster import Cluster, pod_uid
from extender_service.cluster.nominations import Nomination
from extender_service.cluster.pod_volumes import NO_VOLUMES, pod_volumes
from extender_service.extender.candidates import CandidateFinder, Candidates
from extender_service.extender.wire import ExtenderArgs
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import CycleError, Decision, decide
from extender_service.kube.objects import Pod
from extender_service.kube.quantity import QuantityError

# Who asks for something else should not wait longer for what nobody may need.
_MOST_SECONDS = 0.1
# After a decision in vain, so many pods at most are placed before the next attempt.
_LONGEST_PAUSE = 64


_Kind = tuple[Any, ...]


class _Placed(NamedTuple):
    """A pod that was given a node, and how it was asked about."""

    profile: Profile
    pod: Pod
    args: ExtenderArgs


class _Ahead(NamedTuple):
    """A decision about any pod of a kind, and all that it follows from."""

    profile: Profile
    kind: _Kind
    found: Candidates
    nominated: list[Nomination]
    version: tuple[int, ...]
    decision: Decision


class Decided(NamedTuple):
    """The nodes that were asked about, what was decided, and whether that was before the call came."""

    found: Candidates
    decision: Decision
    ahead: bool = False


class Decider:
    """Decides about pods; with `must_score`, feasible nodes get totals.

    `ahead_counts` tells how many decisions that were made ahead were used, and how many not.
    """

    def __init__(
        self, cluster: Cluster, profiles: Mapping[str, Profile], candidates: CandidateFinder, *, must_score: bool
    ) -> None:
        self._cluster = cluster
        self._profiles = profiles
        self._candidates = candidates
        self._must_score = must_score
        # The UID and kind of the pod that was placed before the last.
        self._before: tuple[str, _Kind | None] = ("", None)
        # The last pod whose kind was asked for, and that.
        self._known_kind: tuple[Pod | None, _Kind | None] = (None, None)
        self._last: _Placed | None = None
        self._ahead: _Ahead | None = None
        self._in_vain = 0  # in a row
        self._pause = 0
        self.ahead_counts = {"used": 0, "unused": 0}

    def decide(self, profile: Profile, pod: Pod, args: ExtenderArgs, deadline: float) -> Decided:
        """Decide about a pod and the nodes of a request.

        Raises CycleError, DecodeError or QuantityError for what cannot be decided by the `deadline`.
        """
        found = self._candidates.find(args)
        nominated = self._nominated(pod)
        decision = self._made_ahead(profile, pod, found, nominated)
        if decision is None:
            return Decided(found, self._decide(profile, pod, found, nominated, deadline))
        decision.state.pod = pod
        decision.state.deadline = deadline
        return Decided(found, decision, ahead=True)

    def note_placed(self, profile: Profile, pod: Pod, args: ExtenderArgs) -> None:
        """Take note that a pod was given a node, where it counts from now on."""
        self._last = _Placed(profile, pod, args)

    def decide_ahead(self) -> None:
        """Decide about one more pod like the last, if that was like the one before."""
        last, self._last = self._last, None
        if last is None:
            return
        profile, pod, args = last
        uid, kind = pod_uid(pod), self._kind(pod)
        (uid_before, kind_before), self._before = self._before, (uid, kind)
        if kind is None or kind != kind_before or uid == uid_before:
            return
        if args.nodes is not None or not profile.treats_alike:
            return
        if self._pause:
            self._pause -= 1
            return
        found = self._candidates.find(args)
        nominated = self._nominated(pod)
        try:
            decision = self._decide(profile, pod, found, nominated, time.monotonic() + _MOST_SECONDS)
        except (CycleError, QuantityError):
            self._pause_longer()
            return  # whoever asks will hear of it
        if len(decision.best):
            self._ahead = _Ahead(profile, kind, found, nominated, self._cluster.version, decision)

    def _made_ahead(
        self, profile: Profile, pod: Pod, found: Candidates, nominated: list[Nomination]
    ) -> Decision | None:
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        if (
            ahead.version == self._cluster.version
            and ahead.profile is profile
            and ahead.nominated == nominated
            and ahead.found.asks_the_same(found)
            and ahead.kind == self._kind(pod)
        ):
            self._in_vain = 0
            self.ahead_counts["used"] += 1
            return ahead.decision
        self.ahead_counts["unused"] += 1
        self._pause_longer()
        return None

    def _pause_longer(self) -> None:
        self._in_vain += 1
        self._pause = min(1 << (self._in_vain - 1), _LONGEST_PAUSE) - 1

    def _kind(self, pod: Pod) -> _Kind | None:
        known, kind = self._known_kind
        if known is not pod:
            kind = _kind_of(pod)
            self._known_kind = (pod, kind)
        return kind

    def _nominated(self, pod: Pod) -> list[Nomination]:
        return self._cluster.nominated_for(pod, self._profiles)

    def _decide(
        self, profile: Profile, pod: Pod, found: Candidates, nominated: list[Nomination], deadline: float
    ) -> Decision:
        return decide(
            profile, pod, found.view, found.asked, score=self._must_score, nominated=nominated, deadline=deadline
        )


def _kind_of(pod: Pod) -> _Kind | None:
    """What plugins that treat pods alike may go by; None for a pod with volumes, which mostly are its own."""
    if pod_volumes(pod) != NO_VOLUMES:
        return None
    metadata = pod.metadata
    return (
        metadata.namespace,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
        metadata.deletion_timestamp,
        # The token of a service account is mounted from a volume with a name of its own for each pod.
        structs.replace(pod.spec, volumes=()),
        pod.status,
    )
