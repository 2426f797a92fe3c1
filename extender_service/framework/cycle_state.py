"""What plugins write down for each other during one decision (framework/cycle_state.go)."""

import math
import time
from typing import Any

from extender_service.cluster.amounts.requests import request_shape
from extender_service.cluster.pods.pod_volumes import pod_volumes
from extender_service.cluster.selection.label_sets import label_set
from extender_service.framework.plugin_errors import NoTimeLeftError, PluginError
from extender_service.framework.recording import Recorder
from extender_service.kube.types.core import Pod
from extender_service.seams import Clock


class CycleState:
    """What plugins tell themselves and each other during one decision about one pod.

    The caller waits until the `deadline`, in seconds of `clock`, and not longer. `request_shape` is what the
    pod's requests follow from, which plugins sum up each in its own way; `volumes` are those that it holds; `label_set`
    is its namespace and labels, one object for pods that share them.
    """

    def __init__(
        self,
        pod: Pod,
        recorder: Recorder | None = None,
        deadline: float = math.inf,
        clock: Clock = time.monotonic,
    ) -> None:
        """A `recorder` is told how long the plugins of this decision take."""
        self.pod = pod
        self.request_shape = request_shape(pod.spec)
        self.volumes = pod_volumes(pod)
        self.label_set = label_set(pod.metadata.namespace, pod.metadata.labels)
        self.recorder = recorder
        self.deadline = deadline
        self.clock = clock
        self.skipped_filters: set[str] = set()
        self.skipped_scores: set[str] = set()
        self._by_key: dict[object, Any] = {}

    def require_time(self) -> None:
        """Raise NoTimeLeftError after the deadline. For long loops in a plugin: between plugins the framework looks."""
        if self.clock() > self.deadline:
            raise NoTimeLeftError

    def __getitem__(self, key: object) -> Any:
        return self._by_key[key]

    def __setitem__(self, key: object, value: Any) -> None:
        self._by_key[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def read(self, key: str, doing: str) -> Any:
        """Return what an earlier extension point wrote.

        Raises PluginError in kube-scheduler's words, starting with `doing`, where that point was switched off.
        """
        if key not in self._by_key:
            raise PluginError(f'{doing} "{key}" from cycleState: not found')
        return self._by_key[key]
