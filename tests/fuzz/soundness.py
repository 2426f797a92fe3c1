"""What an answer may say: of nodes that were asked about, scores in their range, and victims that exist."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.requests import Answer, Request

# Whether there is, or was, a pod with this UID.
IsKnown = Callable[[str], bool]

# The answers to calls of verbs that kube-scheduler can do something with: too large a body is for HTTP to tell, and an
# error for which an answer has no field.
_ERRORS = {400, 500, 503}
_STATUSES: dict[str | None, set[int]] = {
    "filter": {200, 413},
    "prioritize": {200, 413, *_ERRORS},
    "preempt": {200, 413, *_ERRORS},
    "bind": {200, 413},
}
_FIRST_FAULT = 500
# How answers tell of an exception that nobody expected, and of one that a plugin raised.
_EXCEPTION = re.compile(r'^internal error|plugin( "[^"]*")?: [A-Z]\w*(Error|Exception): ')
MAX_PRIORITY = 10
MAX_INT64 = 2**63 - 1


def problems(mode: str, request: Request, answer: Answer, is_known: IsKnown) -> Iterator[str]:
    """Say what is wrong with an answer, as far as that can be told without deciding again."""
    expected = _STATUSES.get(request.verb, set())
    if answer.status >= _FIRST_FAULT and answer.status not in expected:
        yield f"status {answer.status}: {answer.body[:500].decode(errors='replace')}"
        return
    if request.verb is None:
        return
    if answer.status not in expected:
        yield f"{request.verb} must not answer with status {answer.status}"
    if answer.status == 200 or answer.status in _ERRORS:
        try:
            members = answer.decoded()
        except ValueError:
            yield f"not JSON: {answer.body[:500].decode(errors='replace')}"
            return
        yield from _problems_in_answer(mode, request, members, is_known, is_refused=answer.status != 200)


def _problems_in_answer(
    mode: str, request: Request, answer: Any, is_known: IsKnown, *, is_refused: bool
) -> Iterator[str]:
    error = answer.get("Error", "") if isinstance(answer, dict) else ""
    if "%" in error:
        yield f"the error is a format string: {error}"
    if _EXCEPTION.search(error):
        yield f"{error} (in {request.verb})"
    if is_refused and not error:
        yield "refused without an error"
    elif error:
        if any(answer.get(field) for field in answer if field != "Error"):
            yield "an error, and an answer, too"
    else:
        yield from _problems_in_verdict(mode, request, answer, is_known)


def _problems_in_verdict(mode: str, request: Request, answer: Any, is_known: IsKnown) -> Iterator[str]:
    asked = _asked(request.body)
    if request.verb == "filter" and asked is not None:
        yield from _filter_problems(mode, asked, answer)
    elif request.verb == "prioritize":
        yield from _priority_problems(mode, asked, answer)
    elif request.verb == "preempt":
        yield from _victim_problems(asked, answer["NodeNameToMetaVictims"], is_known)


def _filter_problems(mode: str, asked: dict[str, Any], answer: dict[str, Any]) -> Iterator[str]:
    names = asked_names(asked)
    if names is None:
        return
    passed = answer["NodeNames"]
    if passed is None:
        passed = [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
    failed = [*answer["FailedNodes"], *answer["FailedAndUnresolvableNodes"]]
    judged = {*passed, *failed}
    if strangers := judged.difference(names):
        yield f"nodes that were not asked about: {strangers}"
    if both := set(passed).intersection(failed):
        yield f"nodes that passed and failed: {both}"
    if mode == "replace" and passed:
        if len(passed) != 1 or failed:
            yield "more than the one node that was chosen"
    elif left_out := set(names) - judged:
        yield f"nodes without a verdict: {left_out}"


def _priority_problems(mode: str, asked: dict[str, Any] | None, answer: list[dict[str, Any]]) -> Iterator[str]:
    highest = MAX_INT64 if mode == "replace" else MAX_PRIORITY
    for priority in answer:
        if not 0 <= priority["Score"] <= highest:
            yield f"a score out of range: {priority}"
    names = None if asked is None else asked_names(asked)
    if names is not None and [priority["Host"] for priority in answer] != names:
        yield "the nodes scored are not those asked about"


def _victim_problems(asked: dict[str, Any] | None, victims: dict[str, Any], is_known: IsKnown) -> Iterator[str]:
    for node, on_node in victims.items():
        if unknown := [pod["UID"] for pod in on_node["Pods"] if not is_known(pod["UID"])]:
            yield f"victims that do not exist: {unknown}"
        if asked is not None and node not in (
            asked.get("nodenametometavictims") or asked.get("nodenametovictims") or {}
        ):
            yield f"a node that was not proposed: {node}"


def uid_asked_about(request: Request) -> str:
    """The UID of the pod in a request, as it may be expected on a node from then on; empty if none may."""
    try:
        args = json.loads(request.body)
        pods = [value for name, value in args.items() if name.lower() == "pod"]
        metadata = pods[-1]["metadata"]
        uid = metadata.get("uid") or f"{metadata.get('namespace') or 'default'}/{metadata.get('name') or ''}"
        return uid if isinstance(uid, str) else ""
    except (ValueError, RecursionError, AttributeError, LookupError, TypeError):
        return ""


def asked_names(asked: dict[str, Any]) -> list[str] | None:
    """The names of the nodes asked about, in their order; None where readers might differ."""
    nodes = asked.get("nodes")
    if isinstance(nodes, dict) and (nodes.get("items") or asked.get("nodenames") is None):
        try:
            return [item["metadata"]["name"] for item in nodes.get("items") or ()]
        except (KeyError, TypeError):
            return None
    names = asked.get("nodenames")
    return names if isinstance(names, list) and None not in names else None


def _asked(body: bytes) -> dict[str, Any] | None:
    """The arguments by their names in lower case; None where a name stands twice, or if they are none."""
    try:
        members = json.loads(body, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    asked = {name.lower(): value for name, value in members.items()} if isinstance(members, dict) else {}
    return asked if isinstance(members, dict) and len(asked) == len(members) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name stands twice")
    return members
