"""The FastAPI application: one route a verb, plus the description of the API."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from fastapi import FastAPI
from msgspec import structs
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from extender_service.extender.bind import Binder, BindError
from extender_service.extender.description import describe
from extender_service.extender.filter import filter_nodes
from extender_service.extender.observation import Observation, Observer, Verb
from extender_service.extender.preempt import preempt
from extender_service.extender.prioritize import prioritize
from extender_service.extender.service import ExtenderService, pod_name
from extender_service.extender.wire import (
    ArgsDecoder,
    ErrorResult,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    error_text,
)
from extender_service.framework.runtime import CycleError
from extender_service.kube.decoding import DecodeError
from extender_service.kube.defaults import DEFAULT_NAMESPACE
from extender_service.kube.objects import Pod
from extender_service.kube.quantity import QuantityError

log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode

# A verb's body -> its answer; fills in what there is to tell about the call as soon as it is known.
VerbHandler = Callable[[bytes, Request, Observation], Awaitable[object]]


def create_app(service: ExtenderService, binder: Binder, observe: Observer) -> FastAPI:
    """Make the application that answers kube-scheduler."""
    app = FastAPI(title="extender-service")
    app.openapi = describe  # type: ignore[method-assign]
    verbs = _Verbs(service, binder)
    routes: tuple[tuple[Verb, VerbHandler, Callable[[str], tuple[int, object]]], ...] = (
        ("filter", verbs.filter, lambda error: (200, ExtenderFilterResult(error=error))),
        # These two answers have no room for an error; kube-scheduler reads only the status.
        ("prioritize", verbs.prioritize, lambda error: (400, ErrorResult(error))),
        ("preempt", verbs.preempt, lambda error: (400, ErrorResult(error))),
        ("bind", verbs.bind, lambda error: (200, ExtenderBindingResult(error))),
    )
    for verb, handler, failed in routes:
        app.router.routes.append(Route(f"/{verb}", _endpoint(verb, handler, failed, observe), methods=["POST"]))
    return app


def _endpoint(
    verb: Verb, handler: VerbHandler, failed: Callable[[str], tuple[int, object]], observe: Observer
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        started = time.perf_counter()
        observation = Observation(verb=verb, pod="", seconds=0)
        status = 200
        try:
            answer = await handler(await request.body(), request, observation)
        except (DecodeError, QuantityError, CycleError, BindError) as error:
            observation.error = error_text(str(error))
        except ClientDisconnect:
            observation.error = "the caller hung up before its request was complete"
        except Exception as error:
            log.exception("a call failed", extra={"verb": verb})
            observation.error = error_text(f"internal error: {type(error).__name__}: {error}")
        if observation.error:
            status, answer = failed(observation.error)
        response = Response(_encode(answer), status, media_type="application/json")
        observation.seconds = time.perf_counter() - started
        observe(observation)
        return response

    return endpoint


class _Verbs:
    """The verbs, from a request body to an answer."""

    def __init__(self, service: ExtenderService, binder: Binder) -> None:
        self._service = service
        self._binder = binder
        self._nodes_args = ArgsDecoder(ExtenderArgs)
        self._preemption_args = ArgsDecoder(ExtenderPreemptionArgs)
        self._binding_args = ArgsDecoder(ExtenderBindingArgs)

    async def filter(self, body: bytes, request: Request, observation: Observation) -> ExtenderFilterResult:
        args = self._nodes_args.decode(body)
        pod = _required_pod(args.pod, observation)
        _require_nodes(args)
        outcome = await filter_nodes(self._service, self._binder, pod, args, partial(_has_hung_up, request))
        observation.asked = outcome.asked
        observation.passed = outcome.passed
        observation.reasons = outcome.reasons
        observation.node_name = outcome.node_name
        observation.looked_again = outcome.looked_again
        return outcome.result

    async def prioritize(self, body: bytes, _request: Request, observation: Observation) -> list[HostPriority]:
        args = self._nodes_args.decode(body)
        pod = _required_pod(args.pod, observation)
        _require_nodes(args)
        priorities = prioritize(self._service, pod, args)
        observation.asked = observation.passed = len(priorities)
        return priorities

    async def preempt(self, body: bytes, _request: Request, observation: Observation) -> ExtenderPreemptionResult:
        args = self._preemption_args.decode(body)
        pod = _required_pod(args.pod, observation)
        result = preempt(self._service, pod, args)
        observation.asked = len(args.node_name_to_meta_victims or args.node_name_to_victims or ())
        observation.passed = len(result.node_name_to_meta_victims)
        return result

    async def bind(self, body: bytes, request: Request, observation: Observation) -> ExtenderBindingResult:
        args = self._binding_args.decode(body)
        for field, value in (
            ("PodName", args.pod_name),
            ("PodNamespace", args.pod_namespace),
            ("PodUID", args.pod_uid),
            ("Node", args.node),
        ):
            if not value:
                raise DecodeError(f"{field} is missing")
        observation.pod = f"{args.pod_namespace}/{args.pod_name}"
        observation.node_name = args.node
        await self._binder.bind(args, partial(_has_hung_up, request))
        observation.asked = observation.passed = 1
        return ExtenderBindingResult()


async def _has_hung_up(request: Request) -> bool:
    # A decision keeps the event loop from reading: it takes a turn to see that the caller is gone, and one to tell.
    for _ in range(3):
        await asyncio.sleep(0)
    return await request.is_disconnected()


def _required_pod(pod: Pod | None, observation: Observation) -> Pod:
    if pod is None:
        raise DecodeError("Pod is missing: send the pod that is to be placed")
    if not pod.metadata.namespace:
        # kube-scheduler always sends one; who tries the service by hand means what kubectl means.
        pod = structs.replace(pod, metadata=structs.replace(pod.metadata, namespace=DEFAULT_NAMESPACE))
    observation.pod = pod_name(pod)
    return pod


def _require_nodes(args: ExtenderArgs) -> None:
    if args.node_names is None and args.nodes is None:
        raise DecodeError("NodeNames is missing: send the names of the nodes in question, or the nodes as Nodes.items")
