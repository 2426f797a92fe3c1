"""For the tests beside this: worlds in which something goes wrong, whatever the product does."""

import pytest

from tests.worlds.scenarios import ScheduledCluster


def let_all_pods_be_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count each pod that is on no node in the end as a violation, also one that fits nowhere."""
    monkeypatch.setattr(ScheduledCluster, "problems", _pods_on_no_node)


def _pods_on_no_node(cluster: ScheduledCluster) -> list[str]:
    at = format(cluster.world.timeline.now, ".6f")
    names = [pod["metadata"]["name"] for pod in cluster.pods() if not pod["spec"].get("nodeName")]
    return [f"{at} all pods bound: pod default/{name} is on no node" for name in names]
