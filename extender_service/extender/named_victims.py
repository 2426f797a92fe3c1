"""Expected pods that the preempt verb has named as victims, by the pod that they make room for.

kube-scheduler does not delete a victim that waits in its own Permit: it sends the victim back to its queue
(prepareCandidate in framework/preemption/preemption.go), and no watch shows that. Next, it asks whether the other pod
fits on its nominated node, where the victim would otherwise be expected for minutes.
"""

from collections.abc import Mapping
from weakref import ref

from extender_service.cluster.state.placements import Placement, Placements
from extender_service.extender.wire.request_limits import LONGEST_NAME
from extender_service.kube.types.extender_api import MetaVictims

# The most victims in all. Each takes less than 600 bytes, with the name of its node and the UID of the other pod.
MOST_VICTIMS = 10_000

# A weak reference, as an expectation may end in many ways, and a pod can be large.
_Victims = dict[str, list[ref[Placement]]]


class NamedVictims:
    """The last victims that were named; `len` counts them."""

    def __init__(self, placements: Placements) -> None:
        self._placements = placements
        # By the UID of the pod that they make room for, the most recent pod last; then by node.
        self._by_preemptor: dict[str, _Victims] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def note(self, preemptor: str, victims: Mapping[str, MetaVictims]) -> None:
        """Note the victims, by node, that are expected there and not being bound; they replace earlier ones."""
        self._forget(preemptor)
        expected = {name: self._expected(name, named) for name, named in victims.items()}
        expected = {name: there for name, there in expected.items() if there}
        count = _count(expected)
        if not expected or count > MOST_VICTIMS or len(preemptor) > LONGEST_NAME:
            return
        while self._count + count > MOST_VICTIMS:
            self._forget(next(iter(self._by_preemptor)))
        self._by_preemptor[preemptor] = expected
        self._count += count

    def take(self, preemptor: str, node_name: str) -> list[Placement]:
        """Remove and return the victims on a pod's nominated node; some of these placements may have ended."""
        if node_name not in self._by_preemptor.get(preemptor, ()):
            return []
        victims = [victim() for victim in self._forget(preemptor)[node_name]]
        return [victim for victim in victims if victim is not None]

    def _expected(self, node_name: str, named: MetaVictims) -> list[ref[Placement]]:
        placements = [self._placements.get(victim.uid) for victim in named.pods]
        return [ref(each) for each in placements if each and not each.assumed and each.node_name == node_name]

    def _forget(self, preemptor: str) -> _Victims:
        victims = self._by_preemptor.pop(preemptor, {})
        self._count -= _count(victims)
        return victims


def _count(victims: _Victims) -> int:
    return sum(map(len, victims.values()))
