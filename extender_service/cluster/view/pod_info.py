"""One pod on a node, for rules that look at pods one by one."""

from collections.abc import Mapping

from extender_service.cluster.pods.pod_table import PodTable


class PodInfo:
    """What is known of a pod that counts on a node; read from the columns when asked for.

    It is for use within the decision: the pod's `slot` may be that of another pod afterwards.
    """

    __slots__ = ("_pods", "slot")

    def __init__(self, pods: PodTable, slot: int) -> None:
        self._pods = pods
        self.slot = slot

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self._pods[self.slot].namespace

    @property
    def name(self) -> str:
        """The pod's name."""
        return self._pods[self.slot].name

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self._pods[self.slot].uid

    @property
    def labels(self) -> Mapping[str, str]:
        """The pod's labels."""
        return self._pods.label_sets[int(self._pods.label_set[self.slot])].labels

    @property
    def priority(self) -> int:
        """The pod's priority."""
        return int(self._pods.priority[self.slot])

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return bool(self._pods.terminating[self.slot])

    @property
    def requests(self) -> dict[str, int]:
        """What the pod takes, by resource name: cpu in milli-CPU, everything else in whole units."""
        requests = self._pods.request_sets.values[self._pods[self.slot].requests]
        assert requests is not None
        return dict(requests.amounts)
