"""All that must hold in a world, always and in the end."""

from collections.abc import Callable, Sequence

from tests.worlds.api_server.server import ApiServer
from tests.worlds.faults.plan import Plan
from tests.worlds.invariants.endings import (
    AllReady,
    AllRun,
    CachesEqual,
    FittingPodsBound,
    LeaderAgreed,
    NothingLeftOver,
    QueuesComplete,
)
from tests.worlds.invariants.observed import Always, InTheEnd, Observed
from tests.worlds.invariants.pods.bindings import BoundOnce, PlacesOfBoundPodsKept
from tests.worlds.invariants.pods.reservations import ReservationsBalanced, ReservationsEnded
from tests.worlds.invariants.pods.rooms import RoomKept, VolumesGivenOnce
from tests.worlds.invariants.pods.victims import VictimsChosen
from tests.worlds.invariants.programs.bounds import AtRest, WithinBounds
from tests.worlds.invariants.programs.leaders import LeaseCountedFromRequest, LeaseTakenInTurn, WrittenByLeader
from tests.worlds.invariants.programs.logs import DifferencesEnd, EveryErrorRead, NothingUnexpectedLogged, ProgramsRunOn
from tests.worlds.invariants.programs.requests import RequestsApart, WatchesPaced, WorkPaced
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.served_model import ServedModel
from tests.worlds.simulation.world import World
from tests.worlds.waits.fitting_pods_tried import FittingPodsTried
from tests.worlds.waits.queue_moves_on import QueueMovesOn
from tests.worlds.waits.watches_keep_up import WatchesKeepUp

_ALWAYS: Sequence[Callable[[Observed], Always]] = (
    BoundOnce,
    PlacesOfBoundPodsKept,
    WrittenByLeader,
    LeaseTakenInTurn,
    LeaseCountedFromRequest,
    RoomKept,
    VolumesGivenOnce,
    VictimsChosen,
    WithinBounds,
    RequestsApart,
    WatchesPaced,
    WorkPaced,
    WatchesKeepUp,
    QueueMovesOn,
    NothingUnexpectedLogged,
    DifferencesEnd,
    ProgramsRunOn,
    EveryErrorRead,
)
_IN_THE_END: Sequence[Callable[[], InTheEnd]] = (
    AllRun,
    QueuesComplete,
    CachesEqual,
    NothingLeftOver,
    AtRest,
    LeaderAgreed,
    AllReady,
)
# A world may end while something is on its way, or while a pod backs off (10 s at most). So what breaks a rule of the
# end is looked at again so many times, after so long each. The world goes on meanwhile, also for rules that held.
_LOOKS = 5
_SECONDS_BETWEEN_LOOKS = 3.0


class WhatMustHold:
    """Make it before the world runs; `violations` says afterwards what did not hold. `observed` is that world."""

    def __init__(
        self,
        world: World,
        model: ApiServer,
        replicas: Sequence[Process],
        service: Process | None = None,
        api_servers: Sequence[ServedModel] = (),
        *,
        calm_from: float = 0.0,
        service_decides: bool = False,
        service_preempts: bool = False,
        is_pair: bool = False,
        faults: Plan = (),
    ) -> None:
        self.observed = Observed(
            world, model, replicas, service, api_servers, calm_from, service_decides, service_preempts, is_pair, faults
        )
        balanced, tried = ReservationsBalanced(self.observed), FittingPodsTried(self.observed)
        self._always: list[Always] = [*(make(self.observed) for make in _ALWAYS), balanced, tried]
        self._in_the_end: list[InTheEnd] = [
            *(make() for make in _IN_THE_END),
            ReservationsEnded(balanced),
            FittingPodsBound(tried.excuses),
        ]
        self._has_ended = False

    def violations(self) -> list[str]:
        """Return a line for each violation, with the world's time. Call it once the world has ended.

        The world runs on for some seconds if not all is settled yet.
        """
        if not self._has_ended:
            self._has_ended = True
            self._look_at_the_end()
            for invariant in self._always:
                invariant.at_end()
        return self.observed.violations.lines()

    def _look_at_the_end(self) -> None:
        world, left = self.observed.world, self._in_the_end
        for look in range(_LOOKS):
            if look:
                world.run(world.timeline.now + _SECONDS_BETWEEN_LOOKS)
            left = [rule for rule in left if any(rule.problems(self.observed))]
            if not left:
                return
        for rule in left:
            for problem in rule.problems(self.observed):
                self.observed.violated(rule, problem)
