import json
from typing import Any

import pytest

from tests.fuzz.requests import Answer, Request, Verb
from tests.fuzz.soundness import problems, uid_asked_about

ASKED = {"Pod": {}, "NodeNames": ["a", "b"]}
PROPOSED = {"Pod": {}, "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}]}}}
VICTIMS = {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}


def filtered(*passed: str, failed: tuple[str, ...] = (), error: str = "") -> dict[str, Any]:
    return {
        "Nodes": None,
        "NodeNames": None if error else list(passed),
        "FailedNodes": dict.fromkeys(failed, "no"),
        "FailedAndUnresolvableNodes": {},
        "Error": error,
    }


def found(mode: str, verb: Verb, asked: Any, answer: Any, status: int = 200) -> list[str]:
    request = Request.call(verb, json.dumps(asked).encode())
    return list(problems(mode, request, Answer(status, json.dumps(answer).encode()), is_known={"u"}.__contains__))


@pytest.mark.parametrize(
    ("mode", "verb", "asked", "answer"),
    [
        ("beside", "filter", ASKED, filtered("a", failed=("b",))),
        ("replace", "filter", ASKED, filtered("a")),
        ("replace", "filter", ASKED, filtered(failed=("a", "b"))),
        ("beside", "filter", {}, filtered(error="Pod is missing")),
        ("beside", "prioritize", ASKED, [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 10}]),
        ("replace", "prioritize", ASKED, [{"Host": "a", "Score": 900}, {"Host": "b", "Score": 0}]),
        ("beside", "preempt", PROPOSED, {"NodeNameToMetaVictims": {"a": VICTIMS}}),
        ("beside", "bind", {}, {"Error": "PodName is missing"}),
    ],
)
def test_answers_that_are_sound(mode: str, verb: Verb, asked: Any, answer: Any) -> None:
    assert found(mode, verb, asked, answer) == []


@pytest.mark.parametrize(
    ("mode", "verb", "answer", "problem"),
    [
        ("beside", "filter", filtered("a", "b", "c"), "not asked about"),
        ("beside", "filter", filtered("a"), "without a verdict"),
        ("beside", "filter", filtered("a", failed=("a", "b")), "passed and failed"),
        ("replace", "filter", filtered("a", "b"), "more than the one node"),
        ("replace", "filter", filtered("a", failed=("b",)), "more than the one node"),
        ("beside", "filter", filtered("a", failed=("b",)) | {"Error": "x"}, "an answer, too"),
        ("beside", "filter", filtered(error="5% of it"), "format string"),
        ("beside", "filter", filtered(error="internal error: KeyError: 1"), "internal error"),
        ("beside", "filter", filtered(error='running PreFilter plugin "Fit": KeyError: 1'), "KeyError"),
        ("beside", "filter", filtered(error='running "Fit" filter plugin: KeyError: 1'), "KeyError"),
        ("beside", "prioritize", [{"Host": "a", "Score": 11}, {"Host": "b", "Score": 0}], "out of range"),
        ("replace", "prioritize", [{"Host": "a", "Score": -1}, {"Host": "b", "Score": 0}], "out of range"),
        ("beside", "prioritize", [{"Host": "a", "Score": 1}], "not those asked about"),
    ],
)
def test_answers_that_are_not(mode: str, verb: Verb, answer: Any, problem: str) -> None:
    [first] = found(mode, verb, ASKED, answer)
    assert problem in first


def test_victims_must_exist_where_they_were_proposed() -> None:
    stranger = {"Pods": [{"UID": "other"}], "NumPDBViolations": 0}
    [problem] = found("beside", "preempt", PROPOSED, {"NodeNameToMetaVictims": {"a": stranger}})
    assert "victims that do not exist" in problem
    [problem] = found("beside", "preempt", PROPOSED, {"NodeNameToMetaVictims": {"b": VICTIMS}})
    assert "not proposed" in problem


@pytest.mark.parametrize(
    ("args", "uid"),
    [
        ({"Pod": {"metadata": {"name": "a", "uid": "u"}}}, "u"),
        ({"pOD": {"metadata": {"name": "a"}}}, "default/a"),
        ({"Pod": {"metadata": {"name": "a", "uid": {"a": 1}}}}, ""),
        ({"Pod": None}, ""),
        ([], ""),
    ],
)
def test_pods_that_may_be_expected_may_be_victims(args: Any, uid: str) -> None:
    assert uid_asked_about(Request.call("filter", json.dumps(args).encode())) == uid


def test_statuses_that_kube_scheduler_can_do_nothing_with() -> None:
    for status in (400, 500, 503):
        assert found("beside", "prioritize", ASKED, {"Error": "why"}, status=status) == []
    assert found("beside", "filter", ASKED, {"Error": "why"}, status=400) == ["filter must not answer with status 400"]
    assert found("beside", "prioritize", ASKED, [], status=400) == ["refused without an error"]
    for status, text in ((400, b"Invalid HTTP"), (500, b"Internal Server Error")):
        [problem] = problems("beside", Request.call("preempt", b""), Answer(status, text), is_known=bool)
        assert "not JSON" in problem
    [problem] = found("beside", "bind", {}, {}, status=500)
    assert "status 500" in problem


def test_nodes_go_back_as_they_came_also_where_that_is_not_utf_8() -> None:
    nodes = b'{"items":[{"metadata":{"name":"a"},"kind":"\xff"}]}'
    request = Request.call("filter", b'{"Pod":{},"Nodes":' + nodes + b"}")
    body = b'{"Nodes":' + nodes + b',"NodeNames":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
    assert list(problems("beside", request, Answer(200, body), is_known=bool)) == []
