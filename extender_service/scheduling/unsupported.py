"""What a pod asks for that plugins of some release of Kubernetes judge, and those of this program do not yet.

If it were not refused, such a pod would pass nodes that cannot run it. tests/api_fields shows that there is no more of
it than here.
"""

import logging
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from extender_service.cluster.amounts.requests import has_pod_resources
from extender_service.config.rules import Rules
from extender_service.framework.status import Status, unresolvable
from extender_service.kube.types.core import Pod, PodSpec, pod_name
from extender_service.scheduling.question import Question

log = logging.getLogger(__name__)

RESOURCES = "spec.resources"
RESOURCE_CLAIMS = "spec.resourceClaims"
SCHEDULING_GROUP = "spec.schedulingGroup"
WORKLOAD_REF = "spec.workloadRef"
DEFERRED_RESIZE = "status.conditions.PodResizePending"


def _always(_: Pod) -> bool:
    return True


def _never(_: Rules) -> bool:
    return False


class _Field(NamedTuple):
    """A field that a pod has if `attribute` of its spec is not the default, and `is_in` agrees."""

    path: str
    attribute: str
    is_judged_in: Callable[[Rules], bool]
    is_judged_here: Callable[[Rules], bool] = _never
    is_in: Callable[[Pod], bool] = _always


def _has_deferred_resize(pod: Pod) -> bool:
    return any(each.type == "PodResizePending" and each.reason == "Deferred" for each in pod.status.conditions)


_FIELDS = (
    _Field(RESOURCE_CLAIMS, "resource_claims", lambda rules: rules.resource_claims),
    _Field(SCHEDULING_GROUP, "scheduling_group", lambda rules: rules.pod_groups),
    _Field(WORKLOAD_REF, "workload_ref", lambda rules: rules.pod_groups),
    _Field(
        RESOURCES,
        "resources",
        lambda rules: rules.first_pod_level_resources,
        lambda rules: rules.pod_level_resources,
        lambda pod: has_pod_resources(pod.spec),
    ),
    # Such a pod has a node already. Without the gate, no scheduler is asked about it.
    _Field(
        DEFERRED_RESIZE,
        "node_name",
        lambda rules: rules.deferred_resizes,
        lambda rules: not rules.deferred_resizes,
        _has_deferred_resize,
    ),
)


class UnsupportedFields:
    """Finds such fields of pods, counts the questions about them, and logs each field once.

    A field that the release does not have, or ignores while a feature gate is off, is not refused: kube-scheduler of
    that release ignores it, too.
    """

    def __init__(self, rules: Rules) -> None:
        self.counts: dict[str, int] = {}
        """How many questions there were about pods with each field, by its path; only fields that some pod had."""
        self._release = rules.release
        self._fields = [field for field in _FIELDS if not field.is_judged_here(rules)]
        self._ignored = frozenset(field.path for field in self._fields if not field.is_judged_in(rules))
        # Each question comes here, and few pods have such a field: one comparison finds out.
        self._values: Callable[[PodSpec], Any] = attrgetter(*(field.attribute for field in self._fields))
        self._no_values = self._values(PodSpec())

    def refusal(self, question: Question) -> Status | None:
        """Return the status that every node gets for a pod with such fields; None if it has none, or the question does
        not refuse them.

        The status is UnschedulableAndUnresolvable, as preemption would not help.
        """
        pod = question.pod
        if self._values(pod.spec) == self._no_values:
            return None
        paths = self._found_in(pod)
        for path in paths:
            self._note(path, question)
        refused = [path for path in paths if path not in self._ignored]
        if not refused or not question.refuses_unsupported:
            return None
        return unresolvable(*map(self._reason, refused))

    def _found_in(self, pod: Pod) -> list[str]:
        values = zip(self._fields, self._values(pod.spec), self._no_values, strict=True)
        return [field.path for field, value, no_value in values if value != no_value and field.is_in(pod)]

    def _note(self, path: str, question: Question) -> None:
        self.counts[path] = self.counts.get(path, 0) + 1
        if self.counts[path] > 1:
            return
        log.warning(
            "pods have a field that the emulated release does not have or does not use: it is ignored"
            if path in self._ignored
            else "pods are refused for a field that is not judged yet"
            if question.refuses_unsupported
            else "pods have a field that is not judged here yet, only by kube-scheduler's own plugins",
            extra={"field": path, "first_pod": pod_name(question.pod), "emulated_version": self._release},
        )

    def _reason(self, path: str) -> str:
        return f"pod has {path}, which kube-scheduler {self._release} judges and extender-service does not"
