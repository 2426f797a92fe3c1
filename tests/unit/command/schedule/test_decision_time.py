"""How long plugins may take, so that the leader renews its lease in time."""

import pytest

from extender_service.command.schedule.decision_time import decision_seconds
from extender_service.command.start_error import StartError
from extender_service.config.durations import Duration
from extender_service.config.types import LeaderElectionConfiguration


def election(renew: str, retry: str, *, elects: bool = True) -> LeaderElectionConfiguration:
    times = {"renew_deadline": Duration.parse(renew), "retry_period": Duration.parse(retry)}
    return LeaderElectionConfiguration().model_copy(update={"leader_elect": elects, **times})


@pytest.mark.parametrize(
    ("renew", "retry", "seconds"), [("10s", "2s", 4), ("60s", "5s", 4), ("3s", "1s", 1), ("13s", "10s", 1.5)]
)
def test_half_of_the_time_for_a_renewal_is_left_to_its_answer(renew: str, retry: str, seconds: float) -> None:
    assert decision_seconds(None, election(renew, retry), 30) == seconds


def test_a_user_may_take_more_of_it_but_not_all() -> None:
    assert decision_seconds(7.5, election("10s", "2s"), 30) == 7.5
    with pytest.raises(StartError) as error:
        decision_seconds(8, election("10s", "2s"), 30)
    assert str(error.value) == (
        "--decision-timeout: 8s must be less than 8s, leaderElection's renewDeadline minus retryPeriod: while plugins "
        "run, the leader does not renew its lease"
    )


def test_without_an_election_plugins_may_take_any_time() -> None:
    assert decision_seconds(None, election("1s", "500ms", elects=False), 30) == 4
    assert decision_seconds(29, election("1s", "500ms", elects=False), 30) == 29


@pytest.mark.parametrize("elects", [False, True])
def test_what_a_user_lets_plugins_take_does_not_reach_the_watchdog(elects: bool) -> None:
    times = election("100s", "2s", elects=elects)
    with pytest.raises(StartError) as error:
        decision_seconds(30, times, 30)
    assert str(error.value) == (
        "--decision-timeout: 30s must be less than --watchdog-timeout (30s), which would end the process first"
    )
    assert decision_seconds(30, times, 31) == 30
    assert decision_seconds(30, times, 0) == 30


def test_what_plugins_may_take_by_default_is_half_of_what_the_watchdog_allows() -> None:
    assert decision_seconds(None, election("1s", "500ms", elects=False), 3) == 1.5
    assert decision_seconds(None, election("10s", "2s"), 3) == 1.5
    assert decision_seconds(None, election("10s", "2s"), 0) == 4
