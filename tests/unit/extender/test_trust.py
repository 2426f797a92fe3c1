import asyncio
from typing import cast

import pytest

from extender_service.extender.leadership import Leadership
from extender_service.extender.trust import Trust, UnavailableError


class Lead:
    """What is known of the lease."""

    def __init__(self, problem: str | None) -> None:
        self._problem = problem
        self.waits = 0

    def problem(self) -> str | None:
        return self._problem

    async def wait(self) -> None:
        self.waits += 1


def trust(distrust: str | None, lead: Lead | None) -> Trust:
    return Trust(lambda: distrust, cast(Leadership | None, lead))


def test_a_service_that_knows_the_cluster_and_leads_may_answer() -> None:
    for each in (Trust(), trust(None, Lead(None))):
        each.require()
        each.require_lead()


def test_a_cluster_that_is_not_known_well_enough_does_not_keep_bindings_from_going_on() -> None:
    stale = trust("pods: stale", Lead(None))
    with pytest.raises(UnavailableError, match="does not know the cluster well enough to decide: pods: stale"):
        stale.require()
    stale.require_lead()


def test_who_leads_is_the_first_reason() -> None:
    other = trust("pods: stale", Lead("the lease is held by other"))
    for require in (other.require, other.require_lead):
        with pytest.raises(
            UnavailableError, match=r"^extender-service places no pods now: the lease is held by other$"
        ):
            require()


def test_a_caller_waits_for_the_lease_where_there_is_one() -> None:
    lead = Lead("no scheduler holds the lease")
    asyncio.run(trust(None, lead).wait())
    asyncio.run(trust(None, None).wait())
    assert lead.waits == 1
