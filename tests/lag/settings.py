"""What the rounds are run with."""

from tests.e2e.support.objects import Object

# Seconds by which watches are late.
LAGS = (0.0, 0.005, 0.04, 0.1, 1.0, 5.0)

_HEAD = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
PRIORITY_CLASSES: list[Object] = [
    {**_HEAD, "metadata": {"name": name}, "value": value} for name, value in (("low", 10), ("high", 100))
]
