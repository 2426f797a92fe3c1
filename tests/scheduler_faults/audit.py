"""What the API server's audit log says: who held the lease from when to when, and who wrote what about pods."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

# The lease with its content, for its terms; bindings with theirs, for their nodes. RequestReceived too, since an API
# server that is killed cannot log the answer of a binding that it has written.
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - level: Request
    verbs: [create, update]
    resources: [{group: coordination.k8s.io, resources: [leases]}]
    omitStages: [RequestReceived]
  - {level: Request, verbs: [create], resources: [{group: "", resources: [pods/binding]}]}
  - {level: Metadata, verbs: [create, update, patch, delete, deletecollection], omitStages: [RequestReceived]}
  - {level: None}
"""


class _User(msgspec.Struct):
    username: str


class _ObjectReference(msgspec.Struct, rename="camel"):
    resource: str = ""
    api_group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class Entry(msgspec.Struct, rename="camel"):
    """One request at one stage (audit.k8s.io/v1, Event)."""

    audit_id: str = msgspec.field(name="auditID")
    stage: str
    verb: str
    user: _User
    request_received_timestamp: str
    object_ref: _ObjectReference = msgspec.field(default_factory=_ObjectReference)
    response_status: _Status = msgspec.field(default_factory=_Status)
    request_object: dict[str, Any] | None = None

    @property
    def received_at(self) -> datetime:
        return datetime.fromisoformat(self.request_received_timestamp)

    @property
    def is_binding(self) -> bool:
        return (self.object_ref.resource, self.object_ref.subresource) == ("pods", "binding")

    @property
    def is_of_lease(self) -> bool:
        """Whether it writes the lease, or an Event of the lease (core/v1; those of pods are events.k8s.io/v1)."""
        return self.object_ref.resource == "leases" or (
            self.object_ref.resource == "events" and not self.object_ref.api_group
        )

    def __str__(self) -> str:
        ref = self.object_ref
        resource = f"{ref.resource}/{ref.subresource}" if ref.subresource else ref.resource
        return f"{self.user.username}: {self.verb} {resource} {ref.name} at {self.request_received_timestamp}"


class Term(msgspec.Struct):
    """The time for which a replica held the lease: from its acquireTime to its last renewTime."""

    user: str
    acquired_at: datetime
    renewed_at: datetime
    released: bool = False


class Audit:
    """The entries of an audit log, each request once: with its answer, unless the API server was killed before that."""

    def __init__(self, log: Path) -> None:
        whole, _, _ = log.read_bytes().rpartition(b"\n")
        by_id = dict[str, Entry]()
        for entry in msgspec.json.Decoder(Entry).decode_lines(whole):
            by_id[entry.audit_id] = entry
        self._entries = sorted(by_id.values(), key=lambda entry: entry.request_received_timestamp)

    def terms(self, lease: str) -> list[Term]:
        """The terms of a lease, one after the other."""
        terms = list[Term]()
        for entry in self._entries:
            if entry.object_ref.resource != "leases" or entry.object_ref.name not in (lease, ""):
                continue
            if entry.response_status.code not in (200, 201) or entry.request_object is None:
                continue
            spec = entry.request_object["spec"]
            acquired_at, renewed_at = (datetime.fromisoformat(spec[key]) for key in ("acquireTime", "renewTime"))
            if not spec.get("holderIdentity"):
                terms[-1].renewed_at, terms[-1].released = renewed_at, True
            elif terms and (terms[-1].user, terms[-1].acquired_at) == (entry.user.username, acquired_at):
                terms[-1].renewed_at = renewed_at
            else:
                terms.append(Term(entry.user.username, acquired_at, renewed_at))
        return terms

    def late_writes(self, terms: Sequence[Term]) -> Iterator[str]:
        """Yield what leaders wrote after the next one's acquireTime, apart from the lease."""
        over_at = {before.user: after.acquired_at for before, after in pairwise(terms)}
        for entry in self._entries:
            over = over_at.get(entry.user.username)
            if over is not None and entry.received_at > over and not entry.is_of_lease:
                yield f"{entry}, though another led from {over.isoformat()}"

    def early_writes(self, terms: Sequence[Term], users: Sequence[str]) -> Iterator[str]:
        """Yield what replicas wrote before they led, or without ever leading."""
        leads_from = {term.user: term.acquired_at for term in terms}
        for entry in self._entries:
            user = entry.user.username
            if user in users and not entry.is_of_lease:
                begin = leads_from.get(user)
                if begin is None or entry.received_at < begin:
                    yield f"{entry}, though it did not lead yet"

    def bindings(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """The users and nodes of the bindings of each pod (namespace/name) that were answered with success."""
        found = defaultdict[str, list[tuple[str, str]]](list)
        for entry in self._entries:
            if entry.is_binding and entry.response_status.code == 201:
                found[_pod_of(entry)].append((entry.user.username, _node_of(entry)))
        return found

    def uncertain_bindings(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """The users and nodes of the bindings of each pod that the log does not know the outcome of.

        The API server was killed before its answer (then the node is ""), or answers 504, as the caller was killed.
        """
        found = defaultdict[str, list[tuple[str, str]]](list)
        for entry in self._entries:
            if entry.is_binding and (entry.stage == "RequestReceived" or entry.response_status.code >= 500):
                found[_pod_of(entry)].append((entry.user.username, _node_of(entry)))
        return found

    def binding_answers(self) -> Counter[int]:
        """How many bindings were answered with each status code; 0 stands for no answer."""
        return Counter(entry.response_status.code for entry in self._entries if entry.is_binding)


def _pod_of(entry: Entry) -> str:
    return f"{entry.object_ref.namespace}/{entry.object_ref.name}"


def _node_of(entry: Entry) -> str:
    """Return the node of a binding; "" at the stage RequestReceived, which has no content."""
    target: str = (entry.request_object or {}).get("target", {}).get("name", "")
    return target
