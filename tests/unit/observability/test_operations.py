import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise

import httpx
import pytest
from prometheus_client.core import Metric
from starlette.applications import Starlette

from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.watching.watch_state import WatchState
from extender_service.observability.health import Health, watch_checks
from extender_service.observability.metrics_registry import MetricsRegistry
from extender_service.observability.operations import operations_routes, resource_route
from extender_service.observability.sli_metrics import SliMetrics
from tests.support.clock import Clock


class Service:
    """The operations' routes of a service that follows nodes."""

    def __init__(self) -> None:
        self.nodes = WatchState(heard_at=time.monotonic())
        watches = {"nodes": self.nodes}
        self.health = Health(watch_checks(watches))
        self.is_leading = True
        self.clock = Clock()
        self.encodings = 0
        metrics = MetricsRegistry("1.2.3", Cluster(), watches, clock=self.clock)
        metrics.prometheus.register(self)
        self.app = Starlette(
            routes=[
                *operations_routes(self.health, metrics.recent_exposition, SliMetrics()),
                resource_route(lambda: iter(["# a\n", "b 1\n"]), lambda: self.is_leading),
            ]
        )

    def collect(self) -> Iterator[Metric]:
        """Take time, as collecting and encoding metrics does."""
        self.encodings += 1
        self.clock.pass_seconds(0.02)
        yield from ()

    def request(self, method: str, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(send())

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        return self.request("GET", path, headers)


@pytest.fixture
def service() -> Service:
    return Service()


def test_ready_once_the_watches_are_synced(service: Service) -> None:
    answer = service.get("/readyz")
    assert answer.status_code == 500
    assert "[-]watch-nodes failed: not synced yet" in answer.text
    service.nodes.synced = True
    answer = service.get("/readyz")
    assert (answer.status_code, answer.text) == (200, "ok")


def test_verbose_lists_the_checks(service: Service) -> None:
    service.nodes.synced = True
    answer = service.get("/readyz?verbose")
    assert answer.status_code == 200
    assert answer.text.splitlines() == ["[+]ping ok", "[+]watch-nodes ok", "[+]shutdown ok", "readyz check passed"]


def test_checks_can_be_excluded(service: Service) -> None:
    assert service.get("/readyz?exclude=watch-nodes&exclude=ping").text == "ok"


def test_a_check_can_be_run_by_itself(service: Service) -> None:
    answer = service.get("/readyz/watch-nodes")
    assert (answer.status_code, answer.text) == (500, "internal server error: not synced yet\n")
    answer = service.get("/readyz/ping")
    assert (answer.status_code, answer.text) == (200, "ok")
    for path in ("/livez/watch-nodes", "/readyz/etcd"):
        assert service.get(path).status_code == 404
    assert "kubernetes_healthcheck{" not in service.get("/metrics/slis").text


def test_not_ready_while_draining(service: Service) -> None:
    service.nodes.synced = True
    service.health.drain()
    assert service.get("/readyz").status_code == 500
    assert service.get("/livez").status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/livez"])
def test_alive_whatever_becomes_of_the_watches(service: Service, path: str) -> None:
    answer = service.get(path)
    assert (answer.status_code, answer.text) == (200, "ok")
    assert service.get(f"{path}?verbose").text == f"[+]ping ok\n{path[1:]} check passed\n"


def test_health_answers_plain_text(service: Service) -> None:
    answer = service.get("/readyz?exclude=<script>")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_metrics_in_the_format_that_is_asked_for(service: Service) -> None:
    answer = service.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'extender_service_watch_synced{resource="nodes"} 0.0\n' in answer.text
    answer = service.get("/metrics", {"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")


def test_a_strange_accept_header_is_no_error(service: Service) -> None:
    assert service.get("/metrics", {"accept": "text/plain;version=1.x;escaping,;;=,text/html"}).status_code == 200
    assert service.get("/metrics", {"accept": "application/openmetrics-text;version=x.1"}).status_code == 200


def test_a_flood_of_scrapes_is_answered_from_few_encodings(service: Service) -> None:
    paths = ("/metrics", "/metrics?name[]=up", "/metrics?exclude=ping")
    answers = [service.get(path, {"accept": f"text/plain;q=0.{i}"}) for i in range(100) for path in paths]
    assert all("extender_service_watch_synced" in answer.text for answer in answers)
    assert service.encodings < 20
    service.nodes.synced = True
    service.clock.pass_seconds(1)
    assert 'extender_service_watch_synced{resource="nodes"} 1.0\n' in service.get("/metrics").text


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/metrics"])
def test_only_get_and_head_are_answered(service: Service, path: str) -> None:
    assert service.request("POST", path).status_code == 405
    assert service.request("HEAD", path).text == ""


def test_resource_metrics_come_in_parts_from_the_leader_alone(service: Service) -> None:
    answer = service.get("/metrics/resources")
    assert (answer.status_code, answer.text) == (200, "# a\nb 1\n")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    service.is_leading = False
    answer = service.get("/metrics/resources")
    assert (answer.status_code, answer.text) == (200, "")


def test_others_have_several_turns_between_two_parts_however_many_ask_for_them() -> None:
    turns = 0
    made_at: list[int] = []

    def exposition() -> Iterator[str]:
        for part in "abc":
            made_at.append(turns)
            yield part

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scrape() -> list[str]:
        transport = httpx.ASGITransport(Starlette(routes=[resource_route(exposition, lambda: True)]))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            taking = asyncio.create_task(take_turns())
            answers = await asyncio.gather(*(client.get("/metrics/resources") for _ in range(20)))
            taking.cancel()
        return [answer.text for answer in answers]

    assert asyncio.run(scrape()) == ["abc"] * 20
    assert len(made_at) == 60
    assert min(later - earlier for earlier, later in pairwise(made_at)) >= 2


def test_the_results_of_health_checks_are_metrics(service: Service) -> None:
    service.get("/readyz")
    service.get("/readyz?exclude=watch-nodes")
    text = service.get("/metrics/slis").text
    assert 'kubernetes_healthcheck{name="watch-nodes",type="readyz"} 0.0' in text
    assert 'kubernetes_healthchecks_total{name="watch-nodes",status="error",type="readyz"} 1.0' in text
    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 2.0' in text
