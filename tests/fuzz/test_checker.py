import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.checker import PROGRAM, GoChecker
from tests.fuzz.requests import Request, Verb

FILTERED: dict[str, Any] = {
    "Nodes": None,
    "NodeNames": ["a"],
    "FailedNodes": {},
    "FailedAndUnresolvableNodes": {},
    "Error": "",
}


@pytest.fixture(scope="module")
def checker(build_go: Callable[[Path], Path]) -> Iterator[GoChecker]:
    build_go(PROGRAM)
    with GoChecker() as running:
        yield running


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        ("filter", FILTERED),
        ("prioritize", [{"Host": "a", "Score": 7}]),
        ("preempt", {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}}),
        ("bind", {"Error": "no"}),
    ],
)
def test_what_go_can_read(checker: GoChecker, verb: Verb, answer: Any) -> None:
    assert checker.complaint(Request.call(verb, b"{}"), encode(answer)) == ""


@pytest.mark.parametrize(
    ("verb", "answer", "complaint"),
    [
        ("filter", encode({**FILTERED, "NodeName": "a"}), 'unknown field "NodeName"'),
        ("filter", encode({**FILTERED, "NodeNames": "a"}), "cannot unmarshal string"),
        ("filter", encode(FILTERED) + b"{}", "there is more after the answer"),
        ("filter", b"", "EOF"),
        ("prioritize", encode([{"Host": "a", "Score": 0.5}]), "cannot unmarshal number 0.5"),
        ("prioritize", encode([{"Host": "a", "Score": 2**63}]), "cannot unmarshal number"),
        ("preempt", encode({"NodeNameToMetaVictims": {"a": None}}), 'no victims on node "a"'),
        ("preempt", encode({"NodeNameToMetaVictims": {"a": {"Pods": []}}}), 'no victims on node "a"'),
        ("preempt", encode({"NodeNameToMetaVictims": {"a": {"Pods": [{}]}}}), "without a UID"),
        ("bind", encode({"Error": None, "Node": "a"}), 'unknown field "Node"'),
    ],
)
def test_what_go_cannot_read(checker: GoChecker, verb: Verb, answer: bytes, complaint: str) -> None:
    assert complaint in checker.complaint(Request.call(verb, b"{}"), answer)


def test_whole_nodes_need_be_no_better_than_they_came(checker: GoChecker) -> None:
    readable, unreadable = {"metadata": {"name": "a"}}, {"metadata": {"name": "a", "labels": {"x": 1}}}
    answer = encode({**FILTERED, "NodeNames": None, "Nodes": {"items": [unreadable]}})

    came_so = Request.call("filter", encode({"Pod": {}, "Nodes": {"items": [unreadable]}}))
    assert checker.complaint(came_so, answer) == ""

    came_otherwise = Request.call("filter", encode({"Pod": {}, "Nodes": {"items": [readable]}}))
    assert "cannot unmarshal number" in checker.complaint(came_otherwise, answer)
