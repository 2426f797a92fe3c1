"""What API servers with faults answer on the wire."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.worlds.faults.plan import Fault
from tests.worlds.faults.trial import Heard, Trial

PODS = "/api/v1/namespaces/default/pods"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def pod(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "image"}]}}


def answers(*asks: Callable[[Trial], Awaitable[Heard]], fault: Fault) -> tuple[list[int], list[float], Trial]:
    """The statuses of answers to requests two seconds after the start, when they came after that, and the world."""
    trial = Trial(fault)
    trial.create(PODS, **pod("old"))
    heard: list[Heard] = []

    async def ask() -> None:
        await asyncio.sleep(2.0)
        heard.extend(await asyncio.gather(*(each(trial) for each in asks)))

    trial.run(ask)
    return [each.status for each in heard], [round(each.at - 2.0, 1) for each in heard], trial


async def create(trial: Trial) -> Heard:
    return await trial.ask("POST", PODS, pod("new"))


async def delete(trial: Trial) -> Heard:
    return await trial.ask("DELETE", f"{PODS}/old")


async def read(trial: Trial) -> Heard:
    return await trial.ask("GET", PODS)


async def read_cached(trial: Trial) -> Heard:
    return await trial.ask("GET", f"{PODS}?resourceVersion=0")


async def review(trial: Trial) -> Heard:
    return await trial.ask("POST", REVIEW, {"spec": {}})


@pytest.mark.parametrize(
    ("kind", "statuses", "seconds"),
    [
        ("read-only", [403, 200, 200, 201], [0.0, 0.0, 0.0, 0.0]),
        ("full", [500, 200, 200, 201], [0.0, 0.0, 0.0, 0.0]),
        ("no-quorum", [500, 500, 200, 201], [7.0, 7.0, 0.0, 0.0]),
    ],
)
def test_an_etcd_that_takes_no_writes(kind: str, statuses: list[int], seconds: list[float]) -> None:
    fault = Fault(1.0, kind, "api-server", seconds=50.0)
    assert answers(create, read, read_cached, review, fault=fault)[:2] == (statuses, seconds)


def test_a_full_etcd_still_deletes() -> None:
    statuses, _, trial = answers(delete, fault=Fault(1.0, "full", "api-server", seconds=50.0))
    assert (statuses, trial.names(PODS)) == ([200], [])


def test_all_is_well_again_in_the_end() -> None:
    for kind in ("read-only", "full", "no-quorum", "slow", "slow-answers", "too-many-requests", "fail"):
        fault = Fault(0.5, kind, "api-server", seconds=1.0, amount=1.0)
        assert answers(create, fault=fault)[:2] == ([201], [0.0])


def test_requests_are_carried_out_late_or_only_answered_late() -> None:
    done: dict[str, list[str]] = {}
    for kind in ("slow", "slow-answers"):

        async def give_up(trial: Trial, kind: str = kind) -> Heard:
            heard = await trial.ask("POST", PODS, pod("new"), seconds=0.1)
            done[kind] = trial.names(PODS)
            return heard

        statuses, _, trial = answers(give_up, fault=Fault(1.0, kind, "api-server", seconds=50.0, amount=100.0))
        assert statuses == [0]
        done[f"{kind}, later"] = trial.names(PODS)
    assert done == {
        "slow": ["old"],
        "slow, later": ["new", "old"],  # carried out after the caller gave up
        "slow-answers": ["new", "old"],  # carried out, and not answered in time
        "slow-answers, later": ["new", "old"],
    }


def test_too_many_requests_say_when_to_ask_again() -> None:
    heard: list[Heard] = []

    async def ask(trial: Trial) -> Heard:
        heard.append(await trial.ask("GET", PODS))
        return heard[0]

    fault = Fault(1.0, "too-many-requests", "api-server", seconds=50.0, amount=1.0)
    assert answers(ask, fault=fault)[0] == [429]
    assert "retry-after: " in heard[0].text


@pytest.mark.parametrize(
    ("kind", "after"), [("fail", ["old"]), ("fail-afterwards", ["new", "old"]), ("fail-answers", ["new", "old"])]
)
def test_a_request_that_failed_was_carried_out_or_not(kind: str, after: list[str]) -> None:
    statuses, _, trial = answers(create, fault=Fault(1.0, kind, "api-server", seconds=50.0, amount=1.0))
    assert statuses[0] >= 500
    assert trial.names(PODS) == after


@pytest.mark.parametrize(("kind", "is_read"), [("fail", False), ("fail-afterwards", True), ("fail-answers", False)])
def test_a_read_fails_too_or_not(kind: str, is_read: bool) -> None:
    statuses, _, _ = answers(read, fault=Fault(1.0, kind, "api-server", seconds=50.0, amount=1.0))
    assert (statuses[0] == 200) == is_read
