"""The history of a world for a person: one line an event, in words of Kubernetes, and nothing of what is usual.

What changes in the store has a line with who did it, and so has what happens to programs, machines and connections.
Requests that change nothing, renewals of leases, and events have none. A request that was refused has one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.worlds.api_server.etcd import Change
from tests.worlds.api_server.kinds import PODS, Kind
from tests.worlds.scenarios import ScheduledCluster

Object = Mapping[str, Any]

# So much of a value, of a line, and so many fields of a change are shown.
_VALUE_CHARACTERS: Final = 60
_LINE_CHARACTERS: Final = 300
_MOST_FIELDS: Final = 4
# The leases of nodes, which kubelets renew.
_OF_NODES: Final = "kube-node-lease/"
_NO_NEWS: Final = {"resourceVersion", "generation", "managedFields", "observedGeneration", "lastHeartbeatTime"}
# What a line of the history says of a request: how it was answered, what it was, and whose.
_REQUEST: Final = re.compile(r"(\d{3}) ([A-Z]+) (\S+) of (\S+)")
# What others than programs ask the API server for has a line of its own, by what it changed.
_ASKED: Final = re.compile(r"(GET|POST|PUT|PATCH|DELETE) /")
_LOGGED: Final = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) ")
_LOGGED_NEWS: Final = ("WARNING ", "ERROR ", "CRITICAL ")


class Story:
    """Make it before the world runs; `lines` are the story afterwards."""

    def __init__(self, cluster: ScheduledCluster) -> None:
        self._trace = cluster.world.trace
        self._world = cluster.world
        # What changed, by the number of the line that the history gets next: that of the request, if one made it.
        self._changes: dict[int, list[tuple[float, str]]] = {}
        cluster.model.etcd.listeners.append(self._see)
        cluster.model.etcd.on_restore.append(lambda: self._add("etcd was restored from a backup"))

    def lines(self) -> Iterator[str]:
        """Yield the lines: the world's time in seconds, who, and what."""
        for number, line in enumerate([*self._trace.lines, "   "]):
            at, _, who, what = line.split(" ", 3)
            request = _REQUEST.match(what)
            if changes := self._changes.get(number):
                its = f"{request[4]}: " if request else f"{who} " if _ASKED.match(what) else ""
                yield from (f"{changed_at:.3f} {its}{change}" for changed_at, change in changes)
                if request or _ASKED.match(what):
                    continue
            if request:
                if int(request[1]) >= 400:
                    yield f"{float(at):.3f} {request[4]}: gets {request[1]} for {request[2]} {request[3]}"
            elif what and _is_news(what):
                yield f"{float(at):.3f} {who} {what[:_LINE_CHARACTERS]}"

    def _see(self, kind: Kind, change: Change) -> None:
        if told := _told(kind, change):
            self._add(told)

    def _add(self, told: str) -> None:
        self._changes.setdefault(len(self._trace.lines), []).append((self._world.timeline.now, told))


def _is_news(what: str) -> bool:
    return what.startswith(_LOGGED_NEWS) if _LOGGED.match(what) else not _ASKED.match(what)


def _told(kind: Kind, change: Change) -> str:
    """Return what a change was; nothing of what is usual."""
    before = change.before.value if change.before else None
    after = change.after.value if change.after else None
    thing = f"{kind.name.lower()} {change.item.key}"
    if kind.name == "Event" or change.item.key.startswith(_OF_NODES):
        return ""
    if kind.name == "Lease":
        holder = _holder(after)
        return f"{holder or 'no replica'} leads ({change.item.key})" if holder != _holder(before) else ""
    if before is None:
        return f"created {thing}{_asked(after) if kind is PODS and after else ''}"
    if after is None:
        return f"removed {thing}"
    if kind is PODS and after["spec"].get("nodeName") and not before["spec"].get("nodeName"):
        return f"bound {thing} to {after['spec']['nodeName']}"
    if "deletionTimestamp" in after["metadata"] and "deletionTimestamp" not in before["metadata"]:
        return f"began to delete {thing}, in {after['metadata'].get('deletionGracePeriodSeconds', 0)} s"
    changed = list(_differences(before, after))
    more = f" and {len(changed) - _MOST_FIELDS} more" if len(changed) > _MOST_FIELDS else ""
    return f"changed {thing}: {'; '.join(changed[:_MOST_FIELDS])}{more}" if changed else ""


def _holder(lease: Object | None) -> str:
    """Return the replica of a lease's holder, whose identity goes on with a UUID."""
    holder: str = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
    return holder.partition("_")[0]


def _asked(pod: Object) -> str:
    """Return what a pod asks for, in words."""
    spec = pod["spec"]
    words = [
        f"{name} {amount}"
        for container in spec.get("containers", ())
        for name, amount in container.get("resources", {}).get("requests", {}).items()
    ]
    if spec.get("priority"):
        words.append(f"priority {spec['priority']}")
    if spec.get("nodeName"):
        words.append(f"on {spec['nodeName']}")
    return f" ({', '.join(words)})" if words else ""


def _differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that differ, with what they are afterwards."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            if name not in _NO_NEWS:
                yield from _differences(before.get(name), after.get(name), f"{path}.{name}".lstrip("."))
    else:
        shown = "gone" if after is None else str(after)
        yield f"{path} {shown[:_VALUE_CHARACTERS]}"
