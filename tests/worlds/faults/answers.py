"""Faults of answers: API servers that refuse requests, fail, or take long. Each is a gate before the model."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from tests.worlds.api_server.errors import RefusedError
from tests.worlds.api_server.fairness import REFUSED
from tests.worlds.api_server.messages import Answer, Delayed, Request, Response
from tests.worlds.api_server.routing import route
from tests.worlds.faults.durations import some_seconds
from tests.worlds.faults.plan import End, Fault, FaultKind
from tests.worlds.faults.surroundings import Surroundings
from tests.worlds.simulation.served_model import Gate

# After so long, an API server gives up on etcd.
_ETCD_SECONDS: Final = 7.0
_WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
# What an API server, or a proxy before it, answers when something fails.
_FAILURES: Final = (
    RefusedError(500, "", "etcdserver: leader changed").response(),
    RefusedError(500, "InternalError", "Internal error occurred: unexpected EOF").response(),
    RefusedError(503, "ServiceUnavailable", "the server is currently unable to handle the request").response(),
    RefusedError(504, "Timeout", "Timeout: request did not complete within the allotted timeout").response(),
    Response(502, b"<html><body>502 Bad Gateway</body></html>", {"content-type": "text/html"}),
)
_RETRY_AFTER_SECONDS: Final = (1, 1, 1, 5, 30)
CarryOut = Callable[[], Answer]


def _through(surroundings: Surroundings, fault: Fault, gate: Gate) -> End:
    """Let requests to a server go through a gate, until the end."""
    gates = surroundings.server(fault.target).gates
    gates.append(gate)

    def end() -> None:
        gates.remove(gate)

    return end


def _read_only(surroundings: Surroundings, fault: Fault) -> End:
    """Refuse all writes with 403."""

    def gate(request: Request, carry_out: CarryOut) -> Answer:
        return (
            RefusedError(403, "Forbidden", "writes are not allowed now").response()
            if _is_write(request)
            else carry_out()
        )

    return _through(surroundings, fault, gate)


def _full(surroundings: Surroundings, fault: Fault) -> End:
    """Refuse what makes etcd larger, which is over its quota."""

    def gate(request: Request, carry_out: CarryOut) -> Answer:
        if _is_write(request) and request.method != "DELETE":
            return RefusedError(500, "", "etcdserver: mvcc: database space exceeded").response()
        return carry_out()

    return _through(surroundings, fault, gate)


def _no_quorum(surroundings: Surroundings, fault: Fault) -> End:
    """Let etcd have no leader: writes and consistent reads time out, the watch cache answers."""

    def gate(request: Request, carry_out: CarryOut) -> Answer:
        is_cached = request.method == "GET" and ("watch" in request.query or request.query.get("resourceVersion"))
        if is_cached or not _is_object(request):
            return carry_out()
        failed = RefusedError(500, "", "etcdserver: request timed out").response()
        return Delayed(_ETCD_SECONDS, lambda: failed)

    return _through(surroundings, fault, gate)


def _slow(surroundings: Surroundings, fault: Fault) -> End:
    """Carry each request out up to `amount` seconds later."""
    random = _random(surroundings, fault)
    return _through(surroundings, fault, lambda _, carry_out: Delayed(fault.amount * random.random() ** 2, carry_out))


def _slow_answers(surroundings: Surroundings, fault: Fault) -> End:
    """Answer up to `amount` seconds after the request was carried out."""
    random = _random(surroundings, fault)
    return _through(surroundings, fault, lambda _, carry_out: _later(carry_out(), fault.amount * random.random() ** 2))


def _too_many(surroundings: Surroundings, fault: Fault) -> End:
    """Refuse `amount` of all requests, as a part of 1, with 429 and a Retry-After of some seconds."""
    random = _random(surroundings, fault)

    def gate(_: Request, carry_out: CarryOut) -> Answer:
        if random.random() >= fault.amount:
            return carry_out()
        return replace(REFUSED, headers={**REFUSED.headers, "retry-after": str(random.choice(_RETRY_AFTER_SECONDS))})

    return _through(surroundings, fault, gate)


def _fail(surroundings: Surroundings, fault: Fault) -> End:
    """Answer `amount` of all requests, as a part of 1, with an error, and carry none of them out."""
    random = _random(surroundings, fault)

    def gate(_: Request, carry_out: CarryOut) -> Answer:
        return random.choice(_FAILURES) if random.random() < fault.amount else carry_out()

    return _through(surroundings, fault, gate)


def _fail_afterwards(surroundings: Surroundings, fault: Fault) -> End:
    """Carry all requests out, but answer `amount` of the writes, as a part of 1, with an error."""
    random = _random(surroundings, fault)

    def gate(request: Request, carry_out: CarryOut) -> Answer:
        answer = carry_out()
        return (
            _instead(answer, random.choice(_FAILURES))
            if _is_write(request) and random.random() < fault.amount
            else answer
        )

    return _through(surroundings, fault, gate)


def _fail_answers(surroundings: Surroundings, fault: Fault) -> End:
    """Answer `amount` of all requests, as a part of 1, with an error, but carry all out: what a program has written, it
    cannot read either."""
    random = _random(surroundings, fault)

    def gate(request: Request, carry_out: CarryOut) -> Answer:
        if random.random() >= fault.amount:
            return carry_out()
        failed = random.choice(_FAILURES)
        return _instead(carry_out(), failed) if _is_write(request) else failed

    return _through(surroundings, fault, gate)


def _later(answer: Answer, seconds: float) -> Delayed:
    """Return an answer so many seconds later."""
    if isinstance(answer, Delayed):
        return Delayed(answer.seconds, lambda: _later(answer.proceed(), seconds))
    return Delayed(seconds, lambda: answer)


def _instead(answer: Answer, other: Response) -> Answer:
    """Return another answer than this, at its time."""
    return Delayed(answer.seconds, lambda: _instead(answer.proceed(), other)) if isinstance(answer, Delayed) else other


def _is_write(request: Request) -> bool:
    return request.method in _WRITES and _is_object(request)


def _is_object(request: Request) -> bool:
    """Return whether a request is about what etcd stores, and not about a right, a token or the server itself."""
    try:
        return not route(request.path).review
    except RefusedError:
        return False


def _random(surroundings: Surroundings, fault: Fault) -> Random:
    return surroundings.world.random(f"{fault.kind} from {fault.at} on: {fault.target}")


def _most_seconds(random: Random) -> float:
    return float(0.1 * 200.0 ** random.random())


def _part(random: Random) -> float:
    return random.choice((0.1, 0.5, 1.0)) * random.random()


def _answering(
    name: str,
    begin: Callable[[Surroundings, Fault], End],
    amount: Callable[[Random], float] = lambda _: 0.0,
) -> FaultKind:
    return FaultKind(name, Surroundings.server_targets, begin, some_seconds, amount)


ANSWER_FAULTS: Final = (
    _answering("read-only", _read_only),
    _answering("full", _full),
    _answering("no-quorum", _no_quorum),
    _answering("slow", _slow, _most_seconds),
    _answering("slow-answers", _slow_answers, _most_seconds),
    _answering("too-many-requests", _too_many, _part),
    _answering("fail", _fail, _part),
    _answering("fail-afterwards", _fail_afterwards, _part),
    replace(_answering("fail-answers", _fail_answers, _part), is_drawn=False),
)
