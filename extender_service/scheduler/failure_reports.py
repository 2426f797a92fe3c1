"""What the API server is to show of pods whose attempts failed: the condition PodScheduled, and the nominated node.

kube-scheduler patches a pod before it turns to the next, so at most one patch waits. Here the loop goes on, and
attempts may fail faster than the API server takes patches. So only the latest failure of each pod is kept, one patch of
a pod is under way at once, and few of all pods (`scheduling/write_turns.py`). Those that change a nomination go first:
until they are written, another leader would not know them, and preempt more pods.

A patch leaves out what the watch shows already. While the watch may not show the last write about a pod, a patch has
all: to leave out that a nomination is withdrawn would let an earlier write of the nomination stand.
"""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Final

import msgspec

from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.versions import shows_version
from extender_service.scheduler.decided_nominations import nominated
from extender_service.scheduler.failure import Failure
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.pod_status import condition_of, failure_patch, generation_of, shown_condition
from extender_service.scheduling.pod_patches import Patch
from extender_service.scheduling.pod_writes import PodWrites, cancelled
from extender_service.scheduling.write_turns import Turn, WriteTurns, not_held_back
from extender_service.seams import WallClock

# A second of the client's default rate (clientConnection.qps). Those that hang do not count.
MOST_REPORTS_AT_ONCE: Final = 50
# With fewer pods written about, it is not worthwhile to look for those that are no longer pending.
_FEW_PODS: Final = 64


class _Report(msgspec.Struct, frozen=True, gc=False):
    """A failure that is not written yet. The pod is that of the attempt. `goes_first` if it changes the nomination."""

    pod: Pod
    failure: Failure
    at_seconds: float
    goes_first: bool


class _TurnState(Enum):
    """How far a pod is on the way to its write. One that waits does so also if its report is dropped meanwhile.

    - `WAITS`: for a turn behind those of all nominations. A nomination that comes now asks for another turn
    - `WAITS_FIRST`: for a turn among those of nominations
    - `HAS_TURN`: until its write ends. It asks for a turn again then, if it has failed again
    """

    WAITS = auto()
    WAITS_FIRST = auto()
    HAS_TURN = auto()


class _Sent(msgspec.Struct, frozen=True, gc=False):
    """What was written last about a pod, until the watch shows it, and with it all that was written before.

    - `key`: the pod's namespace/name
    - `version`: the resource version that the watch showed when the first write began that it does not show yet
    - `nominates`: whether any of the writes nominates the pod for a node
    - `nomination`: None if the last write has none
    - `condition`: the hash of its texts, which may be long; None if none was written, and so `at_seconds`, the time of
      its transition
    """

    key: str
    version: str
    nominates: bool = False
    nomination: str | None = None
    condition: int | None = None
    at_seconds: float | None = None

    @classmethod
    def before(cls, pod: Pod) -> "_Sent":
        """Return what was written about a pod that shows all of it: nothing."""
        return cls(pod_name(pod), pod.metadata.resource_version)

    def is_shown_by(self, pod: Pod) -> bool:
        """Return whether the pod is newer than the first of the writes, and shows the last one.

        One that is not newer may show it too, if the first write changes the pod and the last one changes it back.
        """
        return (
            pod.metadata.resource_version != self.version
            and self.nomination in (None, pod.status.nominated_node_name)
            and self.condition in (None, hash(shown_condition(pod)))
        )


class FailureReports:
    """Patches pods in the background, in the order in which those of a namespace failed, but nominations first.
    `writes` keeps the order for each pod. `held_back_seconds` returns how long the client's rate limit would hold back
    a request.

    `with_generation`, conditions have the generation of the pod that was attempted. `on_unwritten` is called for a pod
    with its nominated node, if that nomination ends before it was written: the watch will not show its end.
    """

    def __init__(
        self,
        writes: PodWrites,
        pending: PodLister,
        wall_clock: WallClock,
        held_back_seconds: Callable[[], float] = not_held_back,
        *,
        with_generation: bool = False,
        on_unwritten: Callable[[Pod], object] = lambda _: None,
    ) -> None:
        self._on_unwritten = on_unwritten
        self._writes = writes
        self._pending = pending
        self._wall_clock = wall_clock
        self._with_generation = with_generation
        self._turns = WriteTurns(MOST_REPORTS_AT_ONCE, held_back_seconds)
        self._waiting: dict[str, _Report] = {}
        self._turn_states: dict[str, _TurnState] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._sent: dict[str, _Sent] = {}
        writes.on_failed = self._note_failed
        writes.on_patched = self._note_patched

    def __len__(self) -> int:
        """How many reports wait or are being written."""
        return len(self._waiting) + len(self._under_way)

    def add(self, pod: Pod, failure: Failure) -> None:
        """Report why an attempt failed, instead of an earlier failure of the pod that is not written yet."""
        uid = pod_uid(pod)
        nomination = failure.nomination
        goes_first = nomination is not None and not self._pending.nominations.is_shown(pod, nomination)
        earlier = self._waiting.get(uid)
        if earlier is not None and failure.nomination is None:  # the earlier one is still to be written
            failure = msgspec.structs.replace(failure, nomination=earlier.failure.nomination)
            goes_first = earlier.goes_first
        elif earlier is not None and failure.nomination != earlier.failure.nomination:
            self._report_unwritten(earlier)
        self._waiting[uid] = _Report(pod, failure, self._wall_clock(), goes_first)
        state = self._turn_states.get(uid)
        if state is None or (goes_first and state is _TurnState.WAITS):
            self._ask_for_turn(uid, pod.metadata.namespace, goes_first=goes_first)

    def note_nomination(self, pod: Pod, node_name: str) -> None:
        """Note that a pod's nomination is about to be written elsewhere: a failure may have to take it back."""
        shown = self._shown(pod)
        if shown is not None:
            sent = self._unshown(shown) or _Sent.before(shown)
            nominates = sent.nominates or bool(node_name)
            self._remember(shown, msgspec.structs.replace(sent, nominates=nominates, nomination=node_name))
            self._pending.nominations.decide(shown, node_name)

    def note_taken_back(self, pod: Pod) -> None:
        """Note that a pod's nomination is about to be taken back elsewhere: no report that waits may write it later."""
        waiting = self._waiting.get(pod_uid(pod))
        if waiting is not None:
            self._report_unwritten(waiting)
            failure = msgspec.structs.replace(waiting.failure, nomination=None)
            self._waiting[pod_uid(pod)] = msgspec.structs.replace(waiting, failure=failure)
        shown = self._shown(pod)
        if shown is None:
            return
        sent = self._unshown(shown)
        if shown.status.nominated_node_name or (sent is not None and sent.nominates):
            self.note_nomination(pod, "")
        else:
            self._pending.nominations.forget(pod_name(shown), pod_uid(shown))  # the watch will not show that it ends

    def forget(self, uid: str) -> None:
        """Drop what is not written yet about a pod that has a node now."""
        self._waiting.pop(uid, None)

    def forget_all(self) -> None:
        """Drop what is not written yet."""
        self._waiting.clear()

    async def close(self) -> None:
        """Wait until all reports are written."""
        while self._under_way:
            await asyncio.wait(self._under_way.values())

    async def abandon(self) -> None:
        """Drop all that is not written yet, and cancel what is being written."""
        self._waiting.clear()
        await cancelled([*self._under_way.values()])

    def _ask_for_turn(self, uid: str, namespace: str, *, goes_first: bool) -> None:
        self._turn_states[uid] = _TurnState.WAITS_FIRST if goes_first else _TurnState.WAITS
        self._turns.ask(namespace, partial(self._begin, uid), goes_first=goes_first)

    def _begin(self, uid: str, turn: Turn) -> bool:
        """Write the report of a pod that has its turn now; returns whether there is something to write."""
        if uid in self._under_way:  # a nomination went first, and what came since waits for its end
            return False
        report = self._waiting.pop(uid, None)
        patch = None if report is None else self._patch_of(report)
        if report is None or patch is None:
            self._turn_states.pop(uid, None)
            return False
        turn.begin()
        self._turn_states[uid] = _TurnState.HAS_TURN
        task = self._under_way[uid] = self._writes.patch_status(report.pod, patch)
        task.add_done_callback(partial(self._end, uid, turn))
        return True

    def _end(self, uid: str, turn: Turn, _task: asyncio.Task[None]) -> None:
        del self._under_way[uid]
        del self._turn_states[uid]
        turn.end()
        report = self._waiting.get(uid)
        if report is not None:  # it failed again meanwhile
            self._ask_for_turn(uid, turn.namespace, goes_first=report.goes_first)

    def _patch_of(self, report: _Report) -> Patch | None:
        """Return the patch to write; None if the pod is gone, is on a node, or shows all of it already."""
        pod = self._shown(report.pod)
        if pod is None:
            return None
        failure, unshown = report.failure, self._unshown(pod)
        sent = unshown or _Sent.before(pod)
        at_seconds = report.at_seconds if sent.at_seconds is None else sent.at_seconds
        is_unsure = not self._shows_all(pod)
        # The failure is about no later generation, even if the watch shows one by now.
        generation = generation_of(report.pod) if self._with_generation else 0
        patch = failure_patch(pod, failure, at_seconds, generation=generation, is_whole=is_unsure)
        if patch is None:
            self._pending.nominations.forget(sent.key, pod_uid(pod))
            return None
        nominates = sent.nominates or bool(failure.nomination)
        condition = hash(condition_of(failure))
        self._remember(pod, _Sent(sent.key, sent.version, nominates, failure.nomination, condition, at_seconds))
        return patch

    def _shown(self, pod: Pod) -> Pod | None:
        """Return a pod as the watch shows it; None if it is gone or on a node."""
        shown = self._pending.get(pod_name(pod))
        return None if shown is None or pod_uid(shown) != pod_uid(pod) else shown

    def _unshown(self, pod: Pod) -> _Sent | None:
        """Return what was written about a pod that is shown so; None if the watch shows all of it."""
        uid = pod_uid(pod)
        sent = self._sent.get(uid)
        if sent is None or uid in self._writes or not sent.is_shown_by(pod):
            return sent
        del self._sent[uid]
        return None

    def _shows_all(self, pod: Pod) -> bool:
        """Return whether the watch shows all that was written about a pod that is shown so, and no write is left."""
        return self._unshown(pod) is None and pod_uid(pod) not in self._writes

    def _report_unwritten(self, report: _Report) -> None:
        """Report that the nomination of a report that waits has ended, if the watch does not show it otherwise."""
        shown, node_name = self._shown(report.pod), report.failure.nomination
        if shown is not None and node_name and shown.status.nominated_node_name != node_name:
            self._on_unwritten(nominated(shown, node_name))

    def _note_failed(self, uid: str) -> None:
        """Note that the last write about a pod failed: a nomination that it has will not be shown."""
        sent = self._sent.get(uid)
        if sent is not None and sent.nomination is not None and not self._is_to_be_nominated(uid):
            self._pending.nominations.forget(sent.key, uid)

    def _note_patched(self, uid: str, version: str) -> None:
        """Note which resource version a pod has after the last write about it.

        If the watch shows that version already, it shows all that was written: the write has changed nothing, or was
        shown before its answer came.
        """
        sent = self._sent.get(uid)
        shown = None if sent is None else self._pending.get(sent.key)
        if sent is None or shown is None or pod_uid(shown) != uid:
            return
        seen = shown.metadata.resource_version
        if seen == version or (seen != sent.version and shows_version(seen, version)):
            del self._sent[uid]
            if not self._is_to_be_nominated(uid):
                self._pending.nominations.forget(sent.key, uid)

    def _is_to_be_nominated(self, uid: str) -> bool:
        """Return whether a report that waits says which node a pod is nominated for, or that it is for none."""
        waiting = self._waiting.get(uid)
        return waiting is not None and waiting.failure.nomination is not None

    def _remember(self, pod: Pod, sent: _Sent) -> None:
        self._sent[pod_uid(pod)] = sent
        if len(self._sent) > 2 * len(self._pending) + _FEW_PODS:
            self._sent = {uid: sent for uid, sent in self._sent.items() if self._is_pending(uid, sent.key)}

    def _is_pending(self, uid: str, key: str) -> bool:
        pod = self._pending.get(key)
        return pod is not None and pod_uid(pod) == uid
