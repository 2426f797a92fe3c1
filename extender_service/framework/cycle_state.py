"""What plugins store for each other during one decision (framework/cycle_state.go)."""

import math
import time
from collections import Counter
from typing import Any

from extender_service.cluster.amounts.requests import OLDEST_REQUEST_RULES, RequestRules, request_shape
from extender_service.cluster.pods.pod_volumes import pod_volumes
from extender_service.cluster.selection.label_sets import label_set
from extender_service.framework.plugin_errors import NoTimeLeftError, PluginError
from extender_service.framework.recording import Recorder
from extender_service.kube.types.core import Pod
from extender_service.seams import Clock


class CycleState:
    """What plugins store for later extension points during one decision about one pod.

    The caller waits until the `deadline`, in seconds of `clock`, and not longer; once the pod is being placed, there is
    none (infinity). `request_shape` has the fields of the pod that its requests depend on; each plugin sums them up in
    its own way. `volumes` are those that the pod uses. `label_set` is its namespace and labels, one object for all pods
    that share them. `evaluated_again` counts the nodes that plugins judged while PostFilter ran. `tried_preemption` is
    whether DefaultPreemption was called then: a plugin before it may end PostFilter.
    """

    evaluated_again: Counter[str] | None = None
    tried_preemption: bool = False

    def __init__(
        self,
        pod: Pod,
        recorder: Recorder | None = None,
        deadline: float = math.inf,
        clock: Clock = time.monotonic,
        rules: RequestRules = OLDEST_REQUEST_RULES,
    ) -> None:
        """If there is a `recorder`, it gets the durations of this decision's plugins. `rules` say what pods request."""
        self.pod = pod
        self.request_shape = request_shape(pod.spec, rules)
        self.volumes = pod_volumes(pod)
        self.label_set = label_set(pod.metadata.namespace, pod.metadata.labels)
        self.recorder = recorder
        self.deadline = deadline
        self.clock = clock
        self.skipped_filters: set[str] = set()
        self.skipped_scores: set[str] = set()
        self._by_key: dict[object, Any] = {}

    def for_pod_alike(self, pod: Pod, deadline: float) -> "CycleState":
        """Return the state of a decision about a pod alike that need not be made: with what plugins stored in this one.

        Its plugins are not timed. What is stored in either state from now on is not in the other.
        """
        state = CycleState.__new__(CycleState)
        state.__dict__.update(self.__dict__)
        state.pod, state.deadline, state.recorder = pod, deadline, None
        state.skipped_filters = self.skipped_filters.copy()
        state.skipped_scores = self.skipped_scores.copy()
        state._by_key = self._by_key.copy()  # noqa: SLF001  # of this class
        return state

    def require_time(self) -> None:
        """Raise NoTimeLeftError after the deadline. Call it in long loops; between plugins, the framework does."""
        if self.clock() > self.deadline:
            raise NoTimeLeftError

    def __getitem__(self, key: object) -> Any:
        """Return what was stored under a key, such as the plugin itself. Raises PluginError if there is nothing."""
        try:
            return self._by_key[key]
        except KeyError:
            raise PluginError(
                f"the state has nothing of {getattr(key, 'name', key)}: its PreFilter or PreScore did not run, "
                "returned SKIP, or stored nothing. Where that may be, ask first whether the key is `in state`"
            ) from None

    def __setitem__(self, key: object, value: Any) -> None:
        self._by_key[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def read(self, key: str, doing: str) -> Any:
        """Return what an earlier extension point stored.

        Raises PluginError with kube-scheduler's text, starting with `doing`, if that point is disabled.
        """
        if key not in self._by_key:
            raise PluginError(f'{doing} "{key}" from cycleState: not found')
        return self._by_key[key]
