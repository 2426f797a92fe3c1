"""The route /configz: the effective configuration, as JSON under kube-scheduler's name for it."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from extender_service.config.types import KubeSchedulerConfiguration


def configuration_route(config: KubeSchedulerConfiguration) -> Route:
    """Return the route. The fields are those of kubescheduler.config.k8s.io/v1."""
    body = {"componentconfig": config.model_dump(mode="json", by_alias=True)}

    async def answer(_: Request) -> Response:
        return JSONResponse(body)

    return Route("/configz", answer)
