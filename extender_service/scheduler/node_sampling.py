"""Looking at some of the nodes only: what `percentageOfNodesToScore` asks for (findNodesThatPassFilters).

From where the last attempt ended, in the order of the nodes, kube-scheduler looks at nodes until it has found so many
that are feasible. Here all are judged, as that costs next to nothing, and the verdicts on those behind are forgotten.
The results are those of kube-scheduler with `parallelism: 1`.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.framework.filtering import PreFilterOutcome
from extender_service.framework.profile import Profile
from extender_service.framework.verdicts import Verdicts
from extender_service.scheduler.node_order import NodeOrder

# With fewer nodes than this, all are looked at; and no less than this are to be found, nor so few percent.
_LEAST_NODES: Final = 100
_LEAST_PERCENT: Final = 5

Percentages = Mapping[str, int | None]


def percentages(config: KubeSchedulerConfiguration) -> Percentages | None:
    """Return the percentage by scheduler name: the profile's, else the one of the whole configuration, else None.

    Returns None for a configuration that has none at all, so that nothing is to be sampled.
    """
    of_all = config.percentage_of_nodes_to_score if "percentage_of_nodes_to_score" in config.model_fields_set else None
    found = {
        profile.scheduler_name: of_all
        if profile.percentage_of_nodes_to_score is None
        else profile.percentage_of_nodes_to_score
        for profile in config.profiles
    }
    return found if any(percentage is not None for percentage in found.values()) else None


class NodeSampling:
    """Where the next attempt begins to look, for the profiles of all names; None as percentage asks for all nodes.

    `extenders_filter` and `extenders_score` are whether any extender does.
    """

    def __init__(
        self,
        order: NodeOrder,
        percentages: Percentages,
        *,
        extenders_filter: bool = False,
        extenders_score: bool = False,
    ) -> None:
        self.order = order
        self.next_start = 0
        self._percentages = percentages
        self._extenders_filter = extenders_filter
        self._extenders_score = extenders_score

    def narrow(self, profile: Profile, verdicts: Verdicts, found: PreFilterOutcome, judged: str = "") -> None:
        """Forget the verdicts on the nodes that are not looked at, and note where the next attempt begins.

        `verdicts` are on all nodes of the cluster, those that PreFilter left out included. `judged` is a node that has
        a status already: a nominated node that did not pass.
        """
        positions = self._in_turn(verdicts, found)
        end, looked_at = self._end(profile, verdicts, positions)
        behind = positions[end:]
        keep = np.ones(len(verdicts.view), np.bool_)
        keep[behind] = False
        window = positions[:looked_at]
        position = verdicts.view.position_of(judged) if judged else -1
        if position >= 0:
            keep[position] |= not verdicts.passing[position]
            looked_at += not (window[~verdicts.passing[window]] == position).any()
        verdicts.keep(keep)
        self.next_start = (self.next_start + looked_at) % max(len(self.order.rows), 1)

    def nodes_to_find(self, profile: Profile, nodes: int) -> int:
        """Return how many of so many nodes are to be found feasible (numFeasibleNodesToFind)."""
        percentage = self._percentages.get(profile.scheduler_name)
        if percentage is None:
            return nodes
        if not self._extenders_filter and not self._extenders_score and not profile.score:
            return 1
        if nodes < _LEAST_NODES:
            return nodes
        return max(nodes * (percentage or max(50 - nodes // 125, _LEAST_PERCENT)) // 100, _LEAST_NODES)

    def _in_turn(self, verdicts: Verdicts, found: PreFilterOutcome) -> NDArray[np.intp]:
        """Return the positions of the nodes to look at. kube-scheduler looks at those that PreFilter named in the
        random order of a map; here they are in the order of the nodes."""
        positions = verdicts.view.positions_of_rows(self.order.rows)
        if found.node_names is not None:
            positions = positions[verdicts.view.is_named(found.node_names)[positions]]
        return np.roll(positions, -(self.next_start % max(len(positions), 1)))

    def _end(self, profile: Profile, verdicts: Verdicts, positions: NDArray[np.intp]) -> tuple[int, int]:
        """Return how many of the verdicts count, and how many of them are on nodes that count as looked at.

        The search ends at a node on which a plugin fails, which does not count, or where one feasible node too many
        is found: so rejected nodes between the last one that is wanted and that one are looked at.
        """
        feasible = np.flatnonzero(verdicts.passing[positions])
        wanted = self.nodes_to_find(profile, len(positions))
        end = int(feasible[wanted]) if len(feasible) > wanted else len(positions)
        failed = np.flatnonzero(verdicts.failed()[positions[:end]])
        return (int(failed[0]) + 1, int(failed[0])) if len(failed) else (end, end)
