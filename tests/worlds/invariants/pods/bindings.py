"""What holds of bindings."""

from functools import partial
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from extender_service.kube.types.core import pod_name
from extender_service.kube.types.pods import pod_uid
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.etcd import Change
from tests.worlds.api_server.kinds import PODS, Kind
from tests.worlds.api_server.messages import Response
from tests.worlds.invariants.ledger import Ledger, LedgerEntry, listen_to_ledgers
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.http_face import Served

_BINDING: Final = "/binding"
_OK, _NOT_FOUND = 200, 404
# A program that gives places up as it ends has ended so long afterwards.
_ENDS_SECONDS: Final = 30.0
# Programs have listed all again so long after a restore.
_RESTORED_SECONDS: Final = 60.0


class BoundOnce:
    """A pod is on one node from its binding to its end: its node never changes, and it is never without one again.

    The API server sees to that. So a process that has run PostBind for a pod, which is there, never asks for another
    binding of it, unless etcd was restored since.
    """

    name = "bound once"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._etcd = observed.model.etcd
        self._programs = {program.name: program for program in observed.programs}
        # When PostBind ran in a program, by its name and the UID of the pod.
        self._known_since: dict[tuple[str, str], float] = {}
        self._etcd.listeners.append(self._see)
        self._etcd.on_restore.append(self._known_since.clear)
        observed.listen(self._check)
        listen_to_ledgers(observed.world.network, self._note)

    def _see(self, kind: Kind, change: Change) -> None:
        if kind is not PODS or change.before is None or change.after is None:
            return
        before, after = change.before.value, change.after.value
        node, new_node = before["spec"].get("nodeName"), after["spec"].get("nodeName")
        if node and node != new_node and before["metadata"]["uid"] == after["metadata"]["uid"]:
            self._observed.violated(self, f"pod {change.item.key} was on {node}, and is on {new_node or 'no node'} now")

    def _note(self, entry: LedgerEntry) -> None:
        uid, item = pod_uid(entry.pod), self._etcd.get(PODS, pod_name(entry.pod))
        if entry.point != "post_bind" or item is None or item.value["metadata"]["uid"] != uid:
            return
        if item.value["spec"].get("nodeName") == entry.node_name:  # otherwise, a restore took the binding back
            self._known_since[entry.ledger.who, uid] = self._observed.now

    def _check(self, served: Served) -> None:
        """Look at a binding, whatever the answer says. One that was sent before PostBind may arrive late."""
        path, program = served.request.path, self._programs.get(served.who)
        if program is None or not path.endswith(_BINDING):
            return
        uid = msgspec.json.decode(served.request.body)["metadata"].get("uid", "")
        known_since = self._known_since.get((served.who, uid))
        if known_since is not None and program.started_at <= known_since < served.written_at:
            since = f"had run PostBind for that pod at {known_since:.6f}"
            self._observed.violated(self, f"{served.who} sent POST {path} at {served.written_at:.6f}, and {since}")

    def at_end(self) -> None:
        """All was looked at as it came."""


class _Bound(NamedTuple):
    """A binding that the API server has carried out: to which node, and when it was sent."""

    node_name: str
    written_at: float


class _Shown(NamedTuple):
    """What a scheduler was last shown of a pod that it read: its node, if any, and when it had asked for that."""

    node_name: str
    written_at: float


class PlacesOfBoundPodsKept:
    """A scheduler does not give up the place of a pod that it has itself bound there (Unreserve), while the pod is
    there: others would take the room, and the pod would be tried once more. Nor does it reserve a place for that pod
    again, unless `serve` is asked once more about a pod that it has bound.

    Excused is who cannot know: the answer to the binding was lost, and the pod that was read since was on no node yet.
    So is a pod that has ended or is being deleted, a program that ends within 30 s, and all that comes within a minute
    after etcd was restored: then a list may take back what the answer to a binding has said.
    """

    name = "places of bound pods kept"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._etcd = observed.model.etcd
        self._replicas = {replica.name for replica in observed.replicas}
        self._bound: dict[tuple[str, str], _Bound] = {}
        self._shown: dict[tuple[str, str], _Shown] = {}
        self._reserved_at: WeakKeyDictionary[Ledger, dict[str, float]] = WeakKeyDictionary()
        self._looks_from = 0.0
        self._etcd.on_restore.append(self._look_later)
        observed.listen(self._see)
        listen_to_ledgers(observed.world.network, self._note)

    def _look_later(self) -> None:
        self._looks_from = self._observed.now + _RESTORED_SECONDS
        self._bound.clear()
        self._shown.clear()

    def _see(self, served: Served) -> None:
        _, _, named = served.request.path.partition("/api/v1/namespaces/")
        namespace, _, name = named.partition("/pods/")
        if not isinstance(served.answer, Response) or not name or self._observed.now < self._looks_from:
            return
        if served.request.method == "GET" and "/" not in name and served.answer.status in (_OK, _NOT_FOUND):
            spec = served.answer.json().get("spec", {})
            shown = _Shown(spec.get("nodeName", ""), served.written_at)
            self._shown[served.who, f"{namespace}/{name}"] = shown
        elif name.endswith(_BINDING):
            # Whatever the answer says: a fault may have put it in place of another one.
            item = self._etcd.get(PODS, f"{namespace}/{name.removesuffix(_BINDING)}")
            target = msgspec.json.decode(served.request.body)["target"]["name"]
            if item is not None and item.value["spec"].get("nodeName") == target:
                key = served.who, item.value["metadata"]["uid"]
                self._bound.setdefault(key, _Bound(target, served.written_at))

    def _note(self, entry: LedgerEntry) -> None:
        if entry.point == "post_bind":
            return
        ledger, pod, now = entry.ledger, pod_name(entry.pod), self._observed.now
        bound_to = self._bound_to(entry)
        if entry.point == "reserve":
            if bound_to and ledger.who in self._replicas:
                text = f"{ledger.who} reserves {entry.node_name} for {pod}, which it has bound to {bound_to}"
                self._observed.violated(self, text)
            self._reserved_at.setdefault(ledger, {})[pod_uid(entry.pod)] = now
        elif bound_to == entry.node_name:
            text = f"{ledger.who} gives up the place of {pod} on {bound_to}, where it has bound it"
            report = partial(self._report_unless_ended, ledger, text, format(now, ".6f"))
            self._observed.world.timeline.call_later(_ENDS_SECONDS, report)

    def _bound_to(self, entry: LedgerEntry) -> str:
        """Return the node of a pod that is there by a binding of its last reservation; empty if a read says other."""
        uid, key, who = pod_uid(entry.pod), pod_name(entry.pod), entry.ledger.who
        bound, item = self._bound.get((who, uid)), self._etcd.get(PODS, key)
        if bound is None or item is None:
            return ""
        metadata = item.value["metadata"]
        is_there = metadata["uid"] == uid and item.value["spec"].get("nodeName") == bound.node_name
        if not is_there or is_finished(item.value) or "deletionTimestamp" in metadata:
            return ""
        shown = self._shown.get((who, key))
        was_read_early = shown is not None and shown.written_at >= bound.written_at and not shown.node_name
        reserved_at = self._reserved_at.get(entry.ledger, {}).get(uid, self._observed.now)
        return bound.node_name if bound.written_at >= reserved_at and not was_read_early else ""

    def _report_unless_ended(self, ledger: Ledger, text: str, at: str) -> None:
        runs = any(program.outcome is None and program.loop is ledger.loop for program in self._observed.programs)
        if runs and self._observed.now >= self._looks_from:
            self._observed.violated(self, text, at=at)

    def at_end(self) -> None:
        """All was looked at as it came."""
