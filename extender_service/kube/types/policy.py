"""Disruption budgets (k8s.io/api policy/v1), reduced to what preemption reads."""

from extender_service.kube.types.core import Int32, LabelSelector, Object, ObjectMeta


class PodDisruptionBudgetSpec(Object):
    """policy/v1 PodDisruptionBudgetSpec."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Object):
    """policy/v1 PodDisruptionBudgetStatus. `disruptions_allowed` already counts the eviction of `disrupted_pods`."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object):
    """policy/v1 PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
