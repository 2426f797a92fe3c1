"""Why a pod fits on no node, as users read it (FitError in framework/types.go), and the plugins that rejected it."""

from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache

import msgspec

from extender_service.framework.fit_text import counted_reasons, fit_text
from extender_service.framework.status import Code, Status
from extender_service.scheduling.decision import Decision


class FitError(msgspec.Struct, frozen=True):
    """The pod fits on none of `nodes` nodes, for reasons by the number of nodes that have them.

    - `pre_filter`: what PreFilter said, if it rejected the pod on all nodes; then there are no `reasons`
    - `plugins`, `pending_plugins`: the plugins whose events make the pod worth another attempt
    - `post_filter`: what PostFilter said
    """

    nodes: int
    reasons: Counter[str]
    plugins: frozenset[str]
    pending_plugins: frozenset[str] = frozenset()
    pre_filter: str = ""
    post_filter: str = ""

    @property
    def message(self) -> str:
        """The text of the pod's condition and of its event."""
        text = fit_text(self.nodes, self.pre_filter or counted_reasons(self.reasons))
        return f"{text} {self.post_filter}" if self.post_filter else text


def fit_error_of(
    decision: Decision, nodes: int, also_blamed: Collection[str] = (), *, counts_left_out: bool = False
) -> FitError:
    """Return why a decision found no feasible node among `nodes` nodes of the cluster.

    `also_blamed` are plugins that rejected the pod besides those that the decision names. With `counts_left_out`, the
    reasons count the nodes that PreFilter left out.
    """
    rejection = decision.pre_filter.rejection
    if rejection is not None:
        blamed = _blamed([rejection])
        # PreFilter plugins that left no node in common are blamed together, not one of them.
        plugins = blamed.plugins or frozenset(decision.pre_filter.restricting)
        return FitError(nodes, Counter(), plugins, blamed.pending, pre_filter=rejection.message)
    reasons: Counter[str] = Counter()
    statuses: list[Status] = []
    for status, positions in decision.verdicts.groups():
        if not status.plugin and not decision.is_final and not counts_left_out:
            continue  # PreFilter left the node out: kube-scheduler v1.31 has no status for it
        statuses.append(status)
        for reason in status.reasons:
            reasons[reason] += len(positions)
    blamed = _blamed(statuses)
    plugins = blamed.plugins.union(decision.pre_filter.restricting, also_blamed)
    return FitError(nodes, reasons, _shared(plugins), blamed.pending)


def rejected_on_one_node(status: Status) -> FitError:
    """Return the error for a plugin that rejected the pod after a node was chosen.

    The plugin has no name if the pod waited in Permit and is being deleted now, or if who rejected it there gave none.
    No event is worth another attempt then.
    """
    plugins = _shared(frozenset((status.plugin,)))
    pending = plugins if status.code == Code.PENDING else _shared(frozenset())
    return FitError(1, Counter(status.reasons), plugins, pending)


class _Blamed(msgspec.Struct):
    plugins: frozenset[str]
    pending: frozenset[str]


def _blamed(statuses: Iterable[Status]) -> _Blamed:
    """Return the plugins of rejections (Diagnosis.AddPluginStatus)."""
    named = [status for status in statuses if status.plugin and status.is_rejection]
    pending = frozenset(status.plugin for status in named if status.code == Code.PENDING)
    return _Blamed(_shared(frozenset(status.plugin for status in named)), _shared(pending))


@lru_cache(maxsize=256)
def _shared(plugins: frozenset[str]) -> frozenset[str]:
    """Return an equal set that was returned before, if there is one: each pod that waits keeps its plugins."""
    return plugins
