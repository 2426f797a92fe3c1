"""While watches are late, or a binding is slow, no pod waits for longer than it must, and none ends for nothing.

These are a few rounds; `make lag` runs all of them, with more delays.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.support.faulty_proxy import Exchange, FaultyProxy
from tests.e2e.support.held_bindings import binding_of
from tests.e2e.support.objects import node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until
from tests.lag.rounds import ROUNDS, complaints
from tests.lag.scene import Setting, lagging_scene
from tests.lag.settings import PRIORITY_CLASSES

# A pod may wait for 2 s beyond the lag.
pytestmark = pytest.mark.alone


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "setting",
    [
        Setting("beside", 0.1),
        Setting("replace", 1.0, has_own_api_server=True),
    ],
    ids=str,
)
def test_no_pod_waits_or_ends_as_the_watch_is_late(
    control_plane: ControlPlane, tmp_path: Path, setting: Setting
) -> None:
    control_plane.api.create(*PRIORITY_CLASSES)
    with lagging_scene(control_plane, tmp_path, setting) as scene:
        assert [wrong for kind in ROUNDS for wrong in complaints(scene, kind, 1, print)] == []
        assert scene.service.metric("extender_service_pods_asked_again_total", result="failed") == 0


def test_a_slow_binding_holds_up_no_other_pod(empty_cluster: ControlPlane, tmp_path: Path) -> None:
    """kube-scheduler, which has given it up, asks about other nodes, and schedules nothing until it has an answer."""
    is_held, go_on = threading.Event(), threading.Event()

    async def holds_bindings(exchange: Exchange) -> None:
        while exchange.resource == "binding" and not go_on.is_set():
            is_held.set()
            await asyncio.sleep(0.01)
        await exchange.pass_on()

    with (
        FaultyProxy(empty_cluster, holds_bindings) as proxy,
        Service(tmp_path, proxy.kubeconfig) as service,
        ThreadPoolExecutor() as pool,
    ):
        _, _, slow, other = empty_cluster.api.create(node("a"), node("b"), pod("slow"), pod("other"))
        wait_until(lambda: service.call("filter", {"Pod": slow, "NodeNames": ["a"]})["NodeNames"], "a place on a")
        try:
            binding = pool.submit(service.call, "bind", binding_of(slow, "a"))
            assert is_held.wait(30)
            answer = service.call("filter", {"Pod": slow, "NodeNames": ["b"]})
            assert answer["Error"] == "pod default/slow is being bound to a"
            assert service.call("filter", {"Pod": other, "NodeNames": ["b"]})["NodeNames"] == ["b"]
            assert not binding.done()
        finally:
            go_on.set()
        assert binding.result() == {"Error": ""}
