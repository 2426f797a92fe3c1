"""The FastAPI application: one route a verb, plus the description of the API."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from fastapi import FastAPI
from msgspec import structs
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from extender_service.extender.calls import Call, HungUpError, answer
from extender_service.extender.docs_page import answer_description, answer_docs
from extender_service.extender.overload.overload import Limit, LimitError, Load
from extender_service.extender.reporting.observation import Observation, Observer, Verb
from extender_service.extender.service import ExtenderService
from extender_service.extender.trust import UnavailableError
from extender_service.extender.wire.bodies import Answer, Body
from extender_service.extender.wire.decoding import ArgsDecoder, error_text
from extender_service.extender.wire.failures import WrongCallError, failure
from extender_service.extender.wire.nodes_args import ExtenderArgsDecoder
from extender_service.extender.wire.passing_names import PassingNamesEncoder
from extender_service.extender.wire.priorities import PrioritiesEncoder
from extender_service.extender.wire.request_limits import LONGEST_NAME, ORDINARY_BYTES, require_moderate_pod
from extender_service.extender.wire.whole_nodes import encode_with_nodes
from extender_service.framework.guard import CycleError, OutOfTimeError, require_time
from extender_service.kube.parsing.api_defaults import DEFAULT_NAMESPACE
from extender_service.kube.parsing.decoder import DecodeError
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.extender_api import (
    ErrorResult,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderPreemptionArgs,
)
from extender_service.scheduling.under_way import BindError
from extender_service.seams import Clock, WallClock

log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode

# A verb's call and the request body -> the answer's body. It fills in the observation of the call as facts are known.
VerbHandler = Callable[[Body, Call, Observation], Awaitable[Answer]]


def create_app(
    extender: ExtenderService, observe: Observer, load: Load, *, wall_clock: WallClock = time.time
) -> FastAPI:
    """Make the application that answers kube-scheduler."""
    verbs = _Verbs(extender)
    handlers: dict[Verb, VerbHandler] = {
        "filter": verbs.filter,
        "prioritize": verbs.prioritize,
        "preempt": verbs.preempt,
        "bind": verbs.bind,
    }
    prepare, clock = extender.engine.prepare, extender.clock
    return _Application(
        {
            f"/{verb}": _Endpoint(verb, handler, prepare, observe, load, clock, wall_clock)
            for verb, handler in handlers.items()
        }
    )


class _Application(FastAPI):
    """Answers verbs itself, as the framework's routing takes longer than a decision, and leaves all else to it."""

    def __init__(self, verbs: Mapping[str, ASGIApp]) -> None:
        # The framework's own pages load their scripts from a CDN, and its description is encoded for each request.
        super().__init__(title="extender-service", openapi_url=None, docs_url=None, redoc_url=None)
        self.router.routes.append(Route("/docs", answer_docs))
        self.router.routes.append(Route("/openapi.json", answer_description))
        self._verbs = verbs
        for path, endpoint in verbs.items():
            self.router.routes.append(Route(path, endpoint, methods=["POST"]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._verbs.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        await (super().__call__ if endpoint is None else endpoint)(scope, receive, send)


class _Endpoint:
    """A verb as an ASGI application: reads the body, answers, and only then prepares for the next call and reports this
    one."""

    def __init__(
        self,
        verb: Verb,
        handler: VerbHandler,
        prepare: Callable[[], None],
        observe: Observer,
        load: Load,
        clock: Clock,
        wall_clock: WallClock,
    ) -> None:
        self._verb: Verb = verb
        self._handler = handler
        self._prepare = prepare
        self._observe = observe
        self._load = load
        self._clock = clock
        self._wall_clock = wall_clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        observation = Observation(verb=self._verb, pod="", seconds=0)
        call = Call(scope, receive, self._load, self._clock)
        status = 200
        body: Answer = ()
        try:
            body = await self._handler(await call.body(), call, observation)
        except (DecodeError, QuantityError, CycleError, BindError, HungUpError, LimitError) as error:
            observation.error = error_text(str(error))
            observation.limit = _limit(error)
            status = _status(error)
            if isinstance(error, LimitError) and error.status is not None:
                body = (_encode(ErrorResult(observation.error)),)
        except Exception as error:
            log.exception("a call failed", extra={"verb": self._verb})
            observation.error = error_text(f"internal error: {type(error).__name__}: {error}")
            status = 500
        finally:
            call.end()
        if observation.error and not body:
            status, failed = failure(self._verb, observation.error, status)
            body = (failed,)
        observation.seconds = self._clock() - call.arrived
        observation.at = self._wall_clock()
        await answer(send, status, body)
        asyncio.get_running_loop().call_soon(self._answered, observation)

    def _answered(self, observation: Observation) -> None:
        # At once, while the processor's caches still have the data, and as the next call may arrive at any moment.
        self._prepare()
        self._observe(observation)


def _limit(error: Exception) -> Limit:
    if isinstance(error, LimitError):
        return error.limit
    return "decision-time" if isinstance(error, OutOfTimeError) else ""


def _status(error: Exception) -> int:
    """Return the HTTP status of an error, which says whether the caller, the moment or this service is at fault."""
    if isinstance(error, LimitError):
        return error.status or 503
    if isinstance(error, DecodeError | QuantityError | HungUpError | WrongCallError):
        return 400
    return 503 if isinstance(error, OutOfTimeError | UnavailableError) else 500


class _Verbs:
    """The verbs, from a request body to an answer."""

    def __init__(self, extender: ExtenderService) -> None:
        self._filter = extender.filter
        self._prioritize = extender.prioritize
        self._preempt = extender.preempt
        self._bind = extender.bind
        self._nodes_args = ExtenderArgsDecoder()
        self._passing_names = PassingNamesEncoder()
        self._priorities = PrioritiesEncoder()
        self._preemption_args = ArgsDecoder(ExtenderPreemptionArgs)
        self._binding_args = ArgsDecoder(ExtenderBindingArgs)

    async def filter(self, body: Body, call: Call, observation: Observation) -> Answer:
        await _take_turn(call)
        args = self._nodes_args.decode(body)
        pod = _required_pod(args.pod, observation)
        _require_nodes(args)
        outcome = await self._filter(pod, args, call.has_hung_up, call.deadline)
        observation.asked = outcome.asked
        observation.passed = outcome.passed
        observation.grounds = outcome.grounds
        observation.node_name = outcome.node_name
        observation.looked_again = outcome.looked_again
        observation.ahead = outcome.ahead
        if outcome.passing is None:
            return (_encode(outcome.result),)
        if args.nodes is not None and outcome.result.nodes is not None:
            return encode_with_nodes(outcome.result, args.nodes.items, outcome.passing.nonzero()[0], body)
        if not outcome.passed:
            return (_encode(outcome.result),)
        return (self._passing_names.encode(outcome.result, args.node_names or [], outcome.passing),)

    async def prioritize(self, body: Body, call: Call, observation: Observation) -> Answer:
        await _take_turn(call)
        args = self._nodes_args.decode(body)
        pod = _required_pod(args.pod, observation)
        _require_nodes(args)
        priorities = self._prioritize(pod, args, call.deadline)
        observation.asked = observation.passed = len(priorities.names)
        observation.grounds = priorities.grounds
        return (self._priorities.encode(priorities),)

    async def preempt(self, body: Body, call: Call, observation: Observation) -> Answer:
        await _take_turn(call)
        args = self._preemption_args.decode(body)
        pod = _required_pod(args.pod, observation)
        if len(body) > ORDINARY_BYTES:
            require_moderate_pod(pod)
        result = self._preempt(pod, args, call.deadline)
        observation.asked = len(args.node_name_to_meta_victims or args.node_name_to_victims or ())
        observation.passed = len(result.node_name_to_meta_victims)
        return (_encode(result),)

    async def bind(self, body: Body, call: Call, observation: Observation) -> Answer:
        args = self._binding_args.decode(body)
        for field, value in (
            ("PodName", args.pod_name),
            ("PodNamespace", args.pod_namespace),
            ("PodUID", args.pod_uid),
            ("Node", args.node),
        ):
            if not value:
                raise DecodeError(f"{field} is missing")
            _require_short(field, value)
        observation.pod = f"{args.pod_namespace}/{args.pod_name}"
        observation.node_name = args.node
        with call.load.binding():
            await self._bind(args, call.has_hung_up)
        observation.asked = observation.passed = 1
        return (_encode(ExtenderBindingResult()),)


async def _take_turn(call: Call) -> None:
    """Raise LimitError or OutOfTimeError for a call that does not need a decision any more."""
    await call.take_turn()
    require_time(call.clock, call.deadline, "waiting for its turn")


def _required_pod(pod: Pod | None, observation: Observation) -> Pod:
    if pod is None:
        raise DecodeError("Pod is missing: send the pod that is to be placed")
    if not pod.metadata.namespace:
        # kube-scheduler always sends a namespace; for requests made by hand, the default is kubectl's.
        pod = structs.replace(pod, metadata=structs.replace(pod.metadata, namespace=DEFAULT_NAMESPACE))
    # The log has them.
    _require_short("Pod.metadata.name", pod.metadata.name)
    _require_short("Pod.metadata.namespace", pod.metadata.namespace)
    observation.pod = pod_name(pod)
    return pod


def _require_short(field: str, name: str) -> None:
    if len(name) > LONGEST_NAME:
        raise DecodeError(f"{field} has {len(name)} characters, of which {LONGEST_NAME} are the most")


def _require_nodes(args: ExtenderArgs) -> None:
    if args.node_names is None and args.nodes is None:
        raise DecodeError("NodeNames is missing: send the names of the nodes in question, or the nodes as Nodes.items")
