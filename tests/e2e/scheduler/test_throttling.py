"""Pods that wait for the scheduler's own limit of requests: the log says so, in words that users of client-go know."""

import re

from tests.e2e.support.objects import node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.whole_scheduler import scheduling
from tests.e2e.support.waiting import wait_until

LINE = re.compile(
    r"Waited for \S+s due to client-side throttling, not priority and fairness, request: "
    r"POST:https://\S+/api/v1/namespaces/default/pods/p\d/binding"
)


def test_the_log_says_that_the_limit_of_requests_holds_pods_back(empty_cluster: ControlPlane) -> None:
    api = empty_cluster.api
    api.create(node("a"), *(pod(f"p{number}") for number in range(4)))
    slow = {"clientConnection": {"qps": 1, "burst": 1}}
    with scheduling(empty_cluster, slow, name="throttled") as process:

        def all_bound() -> bool:
            return all(found["spec"].get("nodeName") for found in api.list_all("Pod"))

        wait_until(all_bound, "all pods to be bound")
        assert LINE.search(process.log.read_text())
