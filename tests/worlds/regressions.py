"""Worlds that once failed, with a sentence each about the defect that they found. A test runs them all."""

from dataclasses import dataclass
from typing import Final

from tests.worlds.faults.plan import Fault
from tests.worlds.scenarios import Scenario


@dataclass(frozen=True)
class Regression:
    """A world that found something. `found` says what, and what mended it."""

    scenario: Scenario
    found: str


def _full(seed: int, until: float) -> Scenario:
    """Return a world as `make worlds` runs it, up to a second."""
    return Scenario(seed, minutes=10.0, replicas=2, has_others=True, has_faults=True, until=until)


REGRESSIONS: Final[tuple[Regression, ...]] = (
    Regression(
        Scenario(seed=200017, minutes=10.0, replicas=2, has_others=True, has_faults=True, mode="replace", until=160.0),
        "the answer to a binding was lost, and reading the pod failed: when the watch showed it bound, `serve` ran "
        "neither PostBind nor Unreserve. Now the watch's word counts, and PostBind runs once that or a read is there",
    ),
    Regression(
        _full(100058, until=350.0),
        "Etcd went back to a backup before the watch could show a binding. Once its pod was read, its place was given "
        "up, and the pod was in no queue. It is queued again now.",
    ),
    Regression(
        _full(150034, until=77.0),
        "A leader that had been frozen could not bind a pod, and ran Unreserve; then its watch showed the pod on just "
        "that node, by the next leader, and it ran PostBind and reported the pod as bound. It reports the failure now.",
    ),
    Regression(
        _full(84125171, until=345.0),
        "A pod was bound and finished while no watch of pods was open. The next list did not have it, and Unreserve "
        "ran after PostBind. Now a reservation has ended with PostBind, once the end of the pod is seen.",
    ),
    Regression(
        Scenario(
            seed=1036,
            minutes=3.0,
            replicas=2,
            nodes=4,
            pods=15,
            has_others=True,
            has_faults=True,
            minor=37,
            mode="replace",
            until=90.0,
        ),
        "A node was deleted during the second look of `serve`, which then gave its reasons for a node without a name. "
        "It decides again now if a node goes meanwhile.",
    ),
    Regression(
        Scenario(
            seed=1052,
            minutes=4.0,
            replicas=2,
            nodes=2,
            pods=30,
            has_others=True,
            has_faults=True,
            fault_kinds=frozenset(
                (
                    "slow",
                    "refusing-webhook",
                    "read-only",
                    "slow-webhook",
                    "freeze-at-work",
                    "slow-network",
                    "fail-afterwards",
                    "fail",
                )
            ),
            wanted=frozenset(("deletions", "priorities", "scarcity", "same-names")),
            mode="replace",
            until=130.0,
        ),
        "A leader lost its lease in the moment in which a pod went that extenders were asked about. That took the end "
        "of the loop for the end of the attempt: the process went on, without a lease, for good. It ends now.",
    ),
    Regression(
        Scenario(seed=83125067, minutes=10.0, replicas=2, has_others=True, has_faults=True, mode="replace", until=80.0),
        "A call of filter came 5 s late, when the watch had long shown the end of its pod. `serve` expected that pod "
        "on the node all the same, for 5 s. Now it expects no pod of which its watch has shown the end.",
    ),
    Regression(
        Scenario(
            seed=10,
            minutes=4.0,
            nodes=4,
            pods=15,
            has_others=True,
            has_faults=True,
            fault_kinds=frozenset(("cut-requests", "freeze", "lag", "slow", "slow-network", "stall")),
            wanted=frozenset(("deletions", "same-names")),
            minor=37,
        ),
        "A pod had run to its end before the watch showed it bound. Once it was read, Unreserve ran, and it was queued "
        "and bound again. Now it counts as bound, and its room is free.",
    ),
    Regression(
        Scenario(
            seed=15,
            minutes=6.0,
            nodes=3,
            pods=15,
            has_others=True,
            has_faults=True,
            fault_kinds=frozenset(("cut-requests", "freeze", "reorder", "slow-network")),
            wanted=frozenset(("deletions", "same-names")),
            minor=37,
        ),
        "A pod waited that another one's anti-affinity had kept out, after that had gone: queueing hints were shown "
        "the pod that had gone without its anti-affinity. Now they see it.",
    ),
    Regression(
        Scenario(
            seed=86,
            minutes=8.0,
            replicas=2,
            nodes=1,
            pods=30,
            has_others=True,
            has_faults=True,
            fault_kinds=frozenset(("stale-cache",)),
        ),
        "A pod was deleted before the watch showed it bound. Once that was read, Unreserve ran after PostBind, "
        "and the pod was tried again. Now its room is free, and that is all.",
    ),
    Regression(
        Scenario(
            seed=2,
            minutes=1.2,
            nodes=1,
            pods=20,
            faults=(
                Fault(8.0, "freeze", "replica-0", 4.0),
                Fault(11.5, "restore", "etcd", 4.0),
                Fault(15.6, "cut", "service/api-server", 4.0),
            ),
            api_servers=1,
            mode="replace",
        ),
        "Etcd went back to a backup without some bindings. `serve` could not see that yet, and answered that these "
        "pods were bound already: PostBind ran for bindings that were lost. Now it reads a pod before it says so.",
    ),
    Regression(
        Scenario(
            seed=7,
            minutes=2.5,
            nodes=3,
            pods=60,
            has_others=True,
            faults=(
                Fault(10.0, "lag", "api-server", 25.0, 30.0),
                Fault(34.0, "forget-versions", "api-server"),
            ),
            wanted=frozenset(("deletions", "same-names", "jobs")),
            api_servers=2,
            mode="replace",
        ),
        "A pod was created, bound by `serve`, and gone before the watch of `serve` could show any of that; then it had "
        "to list. The pod counted for 30 s more. Now its placement ends with the list that lacks it.",
    ),
)
