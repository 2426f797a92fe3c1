"""The routes that operators and their tools ask: health and metrics."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from extender_service.observability.health import Check, Health, run_checks


def operations_routes(health: Health, exposition: Callable[[str], tuple[bytes, str]]) -> list[Route]:
    """Return the routes /healthz, /livez, /readyz and /metrics; for the last, see Metrics.exposition.

    As in Kubernetes' components, health is 200 or 500, `?verbose` lists the checks, and `?exclude=NAME` leaves one out.
    """

    # All are coroutines, as they read the cluster, which only the event loop's thread may do.
    async def answer_metrics(request: Request) -> Response:
        body, content_type = exposition(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    return [
        Route("/healthz", _health_endpoint("healthz", health.health)),
        Route("/livez", _health_endpoint("livez", health.liveness)),
        Route("/readyz", _health_endpoint("readyz", health.readiness)),
        Route("/metrics", answer_metrics),
    ]


def _health_endpoint(name: str, checks: Mapping[str, Check]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        report = run_checks(name, checks, request.query_params.getlist("exclude"))
        # A failure always lists all checks.
        text = report.text if "verbose" in request.query_params or not report.passed else "ok"
        headers = {"x-content-type-options": "nosniff"}
        return PlainTextResponse(text, 200 if report.passed else 500, headers)

    return endpoint
