"""What pods and clusters have in some worlds only, beside what each seed draws for them."""

from random import Random
from typing import Any, Final

Object = dict[str, Any]

# Pods of this class preempt no others; those of "middle" make room for them no more than they do for "high".
PATIENT: Final[Object] = {"metadata": {"name": "patient"}, "value": 50, "preemptionPolicy": "Never"}
_IS_PATIENT: Final = 0.3
_HAS_SIDECAR: Final = 0.4
_CPU: Final = ("50m", "100m", "500m")
_APPS: Final = ("app-0", "app-1", "app-2")
_BUDGETS: Final[tuple[Object, ...]] = (
    {"minAvailable": 1},
    {"minAvailable": "50%"},
    {"maxUnavailable": 0},
    {"maxUnavailable": 1},
    {"maxUnavailable": "50%"},
)


def add_newer(spec: Object, features: frozenset[str], random: Random) -> None:
    """Add to the spec of a pod, or of pods alike, by the features of its cluster."""
    draws = [random.random() for _ in range(2)]
    if "patient" in features and draws[0] < _IS_PATIENT:
        spec["priorityClassName"] = PATIENT["metadata"]["name"]
    if "sidecars" in features and draws[1] < _HAS_SIDECAR:
        others = spec.get("initContainers", [])
        place = random.randint(0, len(others))
        spec["initContainers"] = [*others[:place], _sidecar(random), *others[place:]]


def draw_budgets(random: Random) -> list[Object]:
    """Draw a PodDisruptionBudget for each app. So no pod is in two: some releases count it against either by chance.

    People use the same names for theirs.
    """
    return [
        {
            "metadata": {"name": f"budget-of-{app}"},
            "spec": {"selector": {"matchLabels": {"app": app}}, **random.choice(_BUDGETS)},
        }
        for app in _APPS
    ]


def _sidecar(random: Random) -> Object:
    requests = {"cpu": random.choice(_CPU)}
    return {"name": "sidecar", "image": "image-0:1", "restartPolicy": "Always", "resources": {"requests": requests}}
