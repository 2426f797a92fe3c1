"""A candidate that has no lease may not write, and one that needs none may."""

from typing import cast

import pytest

from extender_service.command.schedule.election import Candidacy
from extender_service.command.start_error import StartError
from extender_service.config.durations import Duration
from extender_service.config.types import LeaderElectionConfiguration
from extender_service.framework.guard import CycleError
from extender_service.kube.connection.client import KubeClient
from extender_service.seams import THIS_MACHINE
from tests.support.event_loop import in_event_loop

NO_CLIENT = cast(KubeClient, None)


@in_event_loop
async def test_without_an_election_a_process_may_write_and_leads_as_soon_as_it_asks() -> None:
    candidacy = Candidacy(None, NO_CLIENT, "scheduler", THIS_MACHINE)
    assert candidacy.write_problem() is None
    candidacy.require_lead()
    assert not candidacy.is_leading
    await candidacy.acquire()
    assert candidacy.is_leading


def test_in_an_election_a_process_may_not_write_before_it_leads() -> None:
    candidacy = Candidacy(LeaderElectionConfiguration(), NO_CLIENT, "scheduler", THIS_MACHINE)
    assert candidacy.write_problem() == "this replica does not hold the lease kube-system/kube-scheduler"
    with pytest.raises(CycleError, match="does not hold the lease"):
        candidacy.require_lead()


def test_a_deadline_that_leaves_no_time_for_another_try_is_refused() -> None:
    times = {"renew_deadline": Duration.parse("6s"), "retry_period": Duration.parse("5s")}
    election = LeaderElectionConfiguration().model_copy(update=times)
    with pytest.raises(StartError) as error:
        Candidacy(election, NO_CLIENT, "scheduler", THIS_MACHINE)
    assert str(error.value) == ("leaderElection.renewDeadline: 6s must be greater than 1.2 times retryPeriod (5s)")
