"""What the audit log is read for: a test that finds nothing wrong must be able to find something."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.scheduler_faults.audit import Audit

LEASE = "lease"


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000000Z"


def write(user: str, second: int, verb: str, resource: str, subresource: str = "", **more: Any) -> dict[str, Any]:
    reference = {
        "resource": resource,
        "subresource": subresource,
        "namespace": "default",
        "name": more.pop("name", "p"),
    }
    return {
        "auditID": f"{user} {second} {verb} {resource}/{subresource} {reference['name']}",
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": user},
        "requestReceivedTimestamp": at(second),
        "objectRef": reference,
        "responseStatus": {"code": 201},
        **more,
    }


def renewal(user: str, second: int, acquired: int, *, holder: str = "someone") -> dict[str, Any]:
    spec = {"holderIdentity": holder, "acquireTime": at(acquired), "renewTime": at(second)}
    return write(user, second, "update", "leases", name=LEASE, requestObject={"spec": spec})


def binding(user: str, second: int, pod: str, node: str) -> dict[str, Any]:
    return write(user, second, "create", "pods", "binding", name=pod, requestObject={"target": {"name": node}})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def audit(log: Path, *entries: dict[str, Any]) -> Audit:
    log.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    return Audit(log)


TERMS = (renewal("a", 1, 1), renewal("a", 3, 1), renewal("b", 20, 20))


def test_a_term_lasts_from_the_first_to_the_last_renewal(log: Path) -> None:
    terms = audit(log, *TERMS).terms(LEASE)
    assert [(term.user, term.acquired_at.second, term.renewed_at.second) for term in terms] == [
        ("a", 1, 3),
        ("b", 20, 20),
    ]
    assert [term.released for term in terms] == [False, False]


def test_a_released_lease_is_known(log: Path) -> None:
    [term] = audit(log, renewal("a", 1, 1), renewal("a", 5, 5, holder="")).terms(LEASE)
    assert (term.renewed_at.second, term.released) == (5, True)


@pytest.mark.parametrize(
    "late",
    [
        binding("a", 21, "p", "n"),
        write("a", 21, "patch", "pods", "status"),
        write("a", 21, "delete", "pods"),
    ],
)
def test_a_write_of_the_old_leader_is_found_once_another_leads(log: Path, late: dict[str, Any]) -> None:
    judged = audit(log, *TERMS, binding("a", 19, "q", "n"), binding("b", 22, "r", "n"), late)
    [found] = judged.late_writes(judged.terms(LEASE))
    assert found.startswith(f"a: {late['verb']} pods")


def test_a_write_before_the_lead_is_found(log: Path) -> None:
    judged = audit(log, *TERMS, binding("b", 19, "p", "n"), binding("c", 19, "q", "n"), binding("b", 21, "r", "n"))
    early = [*judged.early_writes(judged.terms(LEASE), ["a", "b", "c"])]
    assert [text.partition(" at ")[0] for text in early] == ["b: create pods/binding p", "c: create pods/binding q"]


def test_a_pod_that_is_bound_twice_is_found(log: Path) -> None:
    refused = {**binding("b", 23, "p", "o"), "responseStatus": {"code": 409}}
    judged = audit(log, binding("a", 1, "p", "n"), binding("b", 22, "p", "m"), refused)
    assert judged.bindings() == {"default/p": [("a", "n"), ("b", "m")]}


def test_a_binding_whose_outcome_is_not_logged_is_found(log: Path) -> None:
    unanswered = {**binding("a", 1, "p", "n"), "stage": "RequestReceived", "responseStatus": {}, "requestObject": None}
    judged = audit(log, unanswered, {**unanswered, "auditID": "q"}, {**binding("a", 1, "p", "n"), "auditID": "q"})
    assert judged.uncertain_bindings() == {"default/p": [("a", "")]}
    assert judged.bindings() == {"default/p": [("a", "n")]}
    aborted = {**binding("a", 1, "p", "n"), "responseStatus": {"code": 504}}
    assert audit(log, aborted).uncertain_bindings() == {"default/p": [("a", "n")]}
