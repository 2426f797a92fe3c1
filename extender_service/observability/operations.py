"""The routes that operators and their tools ask: health and metrics."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from extender_service.observability.health import Check, Health, run_checks
from extender_service.observability.sli_metrics import CONTENT_TYPE, SliMetrics

# Of the event loop. With more, a busy scheduler would answer later than Prometheus waits.
_TURNS_BETWEEN_PARTS = 2

_NOT_SNIFFED: Final = {"x-content-type-options": "nosniff"}


def operations_routes(
    health: Health, exposition: Callable[[str], tuple[bytes, str]], slis: SliMetrics | None = None
) -> list[Route]:
    """Return the routes /healthz, /livez, /readyz and /metrics; for the last, see RecentExposition.

    As in Kubernetes' components, health is 200 or 500, `?verbose` lists the checks, `?exclude=NAME` leaves one out, and
    /readyz/NAME runs one by itself. `slis`, if given, counts the results, except of a check by itself, and has the
    route /metrics/slis.
    """

    async def answer_metrics(request: Request) -> Response:
        body, content_type = exposition(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    return [
        *health_routes(health, slis),
        Route("/metrics", answer_metrics),
        *([] if slis is None else [_sli_route(slis)]),
    ]


def health_routes(health: Health, slis: SliMetrics | None = None) -> list[Route]:
    """Return those of the operations' routes that say whether the process is alive and ready."""
    # All are coroutines, as they read the cluster, which only the event loop's thread may do.
    checks: Mapping[str, Callable[[], Mapping[str, Check]]] = {
        "healthz": lambda: health.health,
        "livez": lambda: health.liveness,
        "readyz": lambda: health.readiness,
    }
    together = [Route(f"/{name}", _health_endpoint(name, these, slis)) for name, these in checks.items()]
    alone = [Route(f"/{name}/{{check}}", _check_endpoint(these)) for name, these in checks.items()]
    return together + alone


def resource_route(exposition: Callable[[], Iterator[str]], is_leading: Callable[[], bool]) -> Route:
    """Return the route /metrics/resources. As in kube-scheduler, the answer is empty unless this process leads.

    All callers together get one part at a time, and other tasks run before the next one: there may be hundreds of
    callers, and thousands of parts for each.
    """
    making_a_part = asyncio.Lock()

    async def next_part(coming: Iterator[str]) -> str | None:
        async with making_a_part:
            part = next(coming, None)
            for _ in range(_TURNS_BETWEEN_PARTS):
                await asyncio.sleep(0)
        return part

    async def parts() -> AsyncIterator[str]:
        coming = exposition()
        while (part := await next_part(coming)) is not None:
            yield part

    async def answer(_: Request) -> Response:
        headers = {"content-type": CONTENT_TYPE}
        return StreamingResponse(parts(), headers=headers) if is_leading() else Response(headers=headers)

    return Route("/metrics/resources", answer)


def _sli_route(slis: SliMetrics) -> Route:
    async def answer(_: Request) -> Response:
        return Response(slis.exposition(), headers={"content-type": CONTENT_TYPE})

    return Route("/metrics/slis", answer)


def _health_endpoint(
    name: str, checks: Callable[[], Mapping[str, Check]], slis: SliMetrics | None
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        report = run_checks(name, checks(), request.query_params.getlist("exclude"))
        if slis is not None:
            slis.observe(name, report.outcomes)
        # A failure always lists all checks.
        text = report.text if "verbose" in request.query_params or not report.passed else "ok"
        return PlainTextResponse(text, 200 if report.passed else 500, _NOT_SNIFFED)

    return endpoint


def _check_endpoint(checks: Callable[[], Mapping[str, Check]]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        check = checks().get(request.path_params["check"])
        if check is None:
            return PlainTextResponse("404 page not found\n", 404, _NOT_SNIFFED)
        problem = check()
        if problem is not None:
            return PlainTextResponse(f"internal server error: {problem}\n", 500, _NOT_SNIFFED)
        return PlainTextResponse("ok", headers=_NOT_SNIFFED)

    return endpoint
