"""What users do comes at its time."""

from tests.worlds.actors.small_cluster import SmallCluster
from tests.worlds.clusters.users import PODS, Users

PATH = PODS.format("default")
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}


def test_a_pod_is_made_again_under_its_name() -> None:
    cluster = SmallCluster()
    users = Users(cluster.client("users"))
    users.create_at(1.0, [(PATH, POD)])
    users.make_again_at(5.0, PATH, POD)
    cluster.run(4.0)
    (before,) = cluster.all("pods")
    cluster.run(4.0)
    (after,) = cluster.all("pods")
    assert after["metadata"]["name"] == before["metadata"]["name"] == "a"
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
