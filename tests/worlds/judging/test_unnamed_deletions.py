"""A replica deletes only pods that were named as victims: by its own preemption, or by the service that it asks."""

import pytest

from tests.worlds.api_server.messages import Request, Response
from tests.worlds.judging.answers import AnswerWitness
from tests.worlds.judging.witness import Witness
from tests.worlds.scenarios import Mode, Scenario, ScheduledCluster
from tests.worlds.simulation.http_face import Served


@pytest.mark.parametrize(("witness_type", "mode"), [(Witness, None), (AnswerWitness, "replace")])
def test_a_pod_that_is_deleted_and_was_not_named_is_reported(
    witness_type: type[Witness | AnswerWitness], mode: Mode | None
) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.5, pods=3, mode=mode))
    witness = witness_type(cluster.holds.observed)
    cluster.run()
    assert witness.unnamed == []
    request = Request("DELETE", "/api/v1/namespaces/default/pods/pod-1")
    witness._see(Served("replica-0", 30.0, request, Response(200, b"")))
    witness._see(Served("kubelet", 30.0, request, Response(200, b"")))
    assert witness.unnamed == ["30.000000 replica-0 deleted default/pod-1"]
