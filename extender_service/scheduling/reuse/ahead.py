"""Deciding ahead: makes the decision about the next of many pods with one signature before a caller asks for it.

Callers ask about the pods of a ReplicaSet or a Job one after the other, and have other work between an answer and the
next question. A decision that was made in that time is used only if nothing has changed since.

Only `serve` decides ahead: it calls `Engine.prepare` after each answer. `schedule` has no such time, and has runs
(runs.py) instead.
"""

from typing import NamedTuple

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.framework.guard import CycleError
from extender_service.framework.profile import Profile
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.asked_nodes import AskedNodes
from extender_service.scheduling.decision import Decision, decide
from extender_service.scheduling.question import Question
from extender_service.scheduling.reuse.pod_signature import PodSignature, pod_signature

# Seconds. A caller with another question waits no longer than this for a decision that may never be used.
_MOST_SECONDS = 0.1
# The most pods to place after an unused decision before the next attempt.
_LONGEST_PAUSE = 64


class _Ahead(NamedTuple):
    """A decision about any pod with a signature, and all that it depends on."""

    signature: PodSignature
    nominated: Nominated
    version: tuple[int, ...]
    decision: Decision


class DecidingAhead:
    """Keeps the decision that was made ahead, if there is one.

    `counts` are the numbers of decisions made ahead that were used, and that were not.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # UID and signature of the pod that was placed before the last one.
        self._before: tuple[str, PodSignature | None] = ("", None)
        # The last pod whose signature was computed, and that signature.
        self._known_signature: tuple[Pod | None, PodSignature | None] = (None, None)
        self._ahead: _Ahead | None = None
        self._in_vain = 0  # in a row
        self._pause = 0
        self.counts = {"used": 0, "unused": 0}

    def take(self, profile: Profile, question: Question, nominated: Nominated) -> Decision | None:
        """Return the decision that was made ahead if it answers this question, else None; it is dropped either way."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        decision = ahead.decision
        if (
            ahead.version == self._cluster.version
            and decision.profile is profile
            and ahead.nominated == nominated
            and decision.question.nodes.asks_the_same(question.nodes)
            and ahead.signature == self._signature(question.pod)
        ):
            self._in_vain = 0
            self.counts["used"] += 1
            decision.question = question
            state = decision.state
            state.pod, state.deadline = question.pod, question.deadline
            return decision
        self.counts["unused"] += 1
        self._pause_longer()
        return None

    def is_worthwhile(self, profile: Profile, pod: Pod) -> bool:
        """Return whether to decide ahead after this pod was placed, as it has the signature of the one before."""
        uid, signature = pod_uid(pod), self._signature(pod)
        (uid_before, signature_before), self._before = self._before, (uid, signature)
        if signature is None or signature != signature_before or uid == uid_before or not profile.treats_alike:
            return False
        if self._pause:
            self._pause -= 1
            return False
        return True

    def question(self, profile: Profile, pod: Pod, nodes: AskedNodes) -> Question:
        """Return the question about one more pod like this one, with a deadline that is close."""
        return Question(pod, nodes, profile.clock() + _MOST_SECONDS)

    def prepare(self, profile: Profile, question: Question, nominated: Nominated) -> None:
        """Make the decision about one more pod like that of `question`."""
        try:
            decision = decide(profile, question, nominated)
        except (CycleError, QuantityError):
            self._pause_longer()
            return  # a caller that asks gets the error
        if len(decision.best):
            decision.is_ahead = True
            signature = self._signature(question.pod)
            assert signature is not None
            self._ahead = _Ahead(signature, nominated, self._cluster.version, decision)

    def _pause_longer(self) -> None:
        self._in_vain += 1
        self._pause = min(1 << (self._in_vain - 1), _LONGEST_PAUSE) - 1

    def _signature(self, pod: Pod) -> PodSignature | None:
        known, signature = self._known_signature
        if known is not pod:
            signature = pod_signature(pod)
            self._known_signature = (pod, signature)
        return signature
