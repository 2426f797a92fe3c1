"""A replica that asks the service deletes only pods that the service has named as victims."""

from tests.worlds.api_server.messages import Request, Response
from tests.worlds.judging.answers import AnswerWitness
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.http_face import Served


def test_a_pod_that_is_deleted_and_was_not_named_is_reported() -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, pods=3, mode="replace"))
    witness = AnswerWitness(cluster.holds.observed)
    cluster.run()
    assert witness.unnamed == []
    request = Request("DELETE", "/api/v1/namespaces/default/pods/pod-1")
    witness._see(Served("replica-0", 30.0, request, Response(200, b"")))
    witness._see(Served("kubelet", 30.0, request, Response(200, b"")))
    assert witness.unnamed == ["30.000000 replica-0 deleted default/pod-1"]
