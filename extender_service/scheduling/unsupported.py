"""Fields of a pod that ask for something that no plugin judges yet.

If it were not refused, such a pod would pass nodes that cannot run it.
"""

import logging

from extender_service.cluster.amounts.requests import has_pod_resources
from extender_service.framework.profiles import MOST_CHARACTERS, MOST_OTHER_NAMES
from extender_service.framework.status import Status, unresolvable
from extender_service.kube.types.core import Pod, PodSpec, pod_name
from extender_service.scheduling.question import Question

log = logging.getLogger(__name__)

RESOURCES = "spec.resources"
RESOURCE_CLAIMS = "spec.resourceClaims"


class UnsupportedFields:
    """Finds unsupported fields of pods, and logs each field once per scheduler name."""

    def __init__(self, *, pod_level_resources: bool = False) -> None:
        """With `pod_level_resources`, the release that is followed has them, and plugins judge them."""
        self._pod_level_resources = pod_level_resources
        self._logged: set[tuple[str, str]] = set()

    def refusal(self, question: Question) -> Status | None:
        """Return the status that every node gets for a pod with such fields; None if it has none, or the question does
        not refuse them.

        The status is UnschedulableAndUnresolvable, as preemption would not help.
        """
        spec = question.pod.spec
        if spec.resources is None and not spec.resource_claims:
            return None
        fields = self._unsupported(spec)
        for field in fields:
            self._log(question.pod, field, refuses=question.refuses_unsupported)
        if not fields or not question.refuses_unsupported:
            return None
        return unresolvable(*(f"pod has {field}, which extender-service does not support" for field in fields))

    def _log(self, pod: Pod, field: str, *, refuses: bool) -> None:
        scheduler_name = pod.spec.scheduler_name[:MOST_CHARACTERS]
        if (scheduler_name, field) in self._logged or len(self._logged) >= 2 * MOST_OTHER_NAMES:
            return
        self._logged.add((scheduler_name, field))
        log.warning(
            "pods are refused for a field that is not supported yet"
            if refuses
            else "pods have a field that is not judged here yet, only by kube-scheduler's own plugins",
            extra={"field": field, "scheduler": scheduler_name, "first_pod": pod_name(pod)},
        )

    def _unsupported(self, spec: PodSpec) -> list[str]:
        fields = [RESOURCE_CLAIMS] if spec.resource_claims else []
        if has_pod_resources(spec) and not self._pod_level_resources:
            fields.append(RESOURCES)
        return fields
