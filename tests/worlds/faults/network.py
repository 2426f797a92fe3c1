"""Faults of connections. Their targets are links between two hosts, `client/server`."""

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from tests.worlds.faults.durations import some_seconds
from tests.worlds.faults.plan import End, Fault, FaultKind
from tests.worlds.faults.surroundings import Surroundings
from tests.worlds.simulation.routes import Break
from tests.worlds.simulation.transport import MemoryTransport

# After so long, the server's system closes a connection that was lost (TCP keepalive).
_KEEPALIVE_SECONDS: Final = 60.0
# Which connection of a link is hit, from the oldest at 0 on; all of them from this number on.
_ALL: Final = 0.5
_LATEST_BREAK_BYTES: Final = 30_000.0
_BREAKS_WITHIN_SECONDS: Final = 30.0


def _cut(surroundings: Surroundings, fault: Fault) -> End:
    """Let nothing arrive between two hosts. In the end, all arrives that was sent."""
    client, server = surroundings.link(fault.target)
    requests, answers = _cut_route(surroundings, client, server), _cut_route(surroundings, server, client)

    def mend() -> None:
        requests()
        answers()

    return mend


def _cut_requests(surroundings: Surroundings, fault: Fault) -> End:
    """Let nothing arrive that the client sends. In the end it does, though the client may have given up."""
    return _cut_route(surroundings, *surroundings.link(fault.target))


def _cut_answers(surroundings: Surroundings, fault: Fault) -> End:
    """Let nothing arrive that the server sends: requests are carried out, and not answered in time."""
    client, server = surroundings.link(fault.target)
    return _cut_route(surroundings, server, client)


def _cut_route(surroundings: Surroundings, sender: str, receiver: str) -> End:
    route = surroundings.world.network.route(sender, receiver)
    return surroundings.share("cut", sender, receiver, begin=route.cut, end=route.mend)


def _slow(surroundings: Surroundings, fault: Fault) -> End:
    """Let everything take `amount` seconds more, each way."""
    return _delay(surroundings, fault, lambda: fault.amount)


def _reorder(surroundings: Surroundings, fault: Fault) -> End:
    """Let each piece take up to `amount` seconds more, so that connections overtake each other."""
    random = surroundings.world.random(f"reordered from {fault.at} on: {fault.target}")
    return _delay(surroundings, fault, lambda: fault.amount * random.random() ** 2)


def _delay(surroundings: Surroundings, fault: Fault, delay: Callable[[], float]) -> End:
    client, server = surroundings.link(fault.target)
    routes = [surroundings.world.network.route(*way) for way in ((client, server), (server, client))]
    for route in routes:
        route.delays.append(delay)

    def end() -> None:
        for route in routes:
            route.delays.remove(delay)

    return end


def _connections(surroundings: Surroundings, fault: Fault) -> list[MemoryTransport]:
    """Return the client's ends of the connections that a fault hits."""
    found = surroundings.world.network.connections(*surroundings.link(fault.target))
    if fault.amount >= _ALL:
        return found
    first = int(fault.amount / _ALL * len(found))
    return found[first : first + 1]


def _reset(surroundings: Surroundings, fault: Fault) -> None:
    """Reset connections, as a firewall does."""
    for connection in _connections(surroundings, fault):
        connection.sever(resets=True)


def _close(surroundings: Surroundings, fault: Fault) -> None:
    """Close connections in the orderly way, as a load balancer does."""
    for connection in _connections(surroundings, fault):
        connection.sever(resets=False)


def _lose(surroundings: Surroundings, fault: Fault) -> None:
    """Let nothing arrive any more on connections, which look open at both ends."""
    for connection in _connections(surroundings, fault):
        connection.lose()
        give_up = partial(connection.peer.fail, errno.ETIMEDOUT)
        surroundings.world.timeline.call_later(_KEEPALIVE_SECONDS, give_up)


def _break_answer(surroundings: Surroundings, fault: Fault, *, resets: bool) -> None:
    """End the connection over which the `amount`th byte goes to the client, right behind it."""
    client, server = surroundings.link(fault.target)
    _break(surroundings, (server, client), Break(int(fault.amount), resets=resets))


def _break_request(surroundings: Surroundings, fault: Fault, *, resets: bool) -> None:
    """End the connection over which the `amount`th byte goes to the server, right behind it."""
    _break(surroundings, surroundings.link(fault.target), Break(int(fault.amount), resets=resets))


def _break(surroundings: Surroundings, way: tuple[str, str], at: Break) -> None:
    breaks = surroundings.world.network.route(*way).breaks
    breaks.append(at)

    def give_up() -> None:
        if at in breaks:
            breaks.remove(at)

    # On a route that is hardly used, it would come when all faults are long over.
    surroundings.world.timeline.call_later(_BREAKS_WITHIN_SECONDS, give_up)


def _some_bytes(random: Random) -> float:
    return float(int(_LATEST_BREAK_BYTES ** random.random()))


def _delay_seconds(random: Random) -> float:
    """Draw a delay: from what another region costs up to more than time-outs allow."""
    return float(0.02 * 300.0 ** random.random())


def _on_a_link(
    name: str,
    begin: Callable[[Surroundings, Fault], End | None],
    seconds: Callable[[Random], float] = lambda _: 0.0,
    amount: Callable[[Random], float] = lambda _: 0.0,
) -> FaultKind:
    return FaultKind(name, Surroundings.link_targets, begin, seconds, amount)


NETWORK_FAULTS: Final = (
    _on_a_link("cut", _cut, some_seconds),
    _on_a_link("cut-requests", _cut_requests, some_seconds),
    _on_a_link("cut-answers", _cut_answers, some_seconds),
    _on_a_link("slow-network", _slow, some_seconds, _delay_seconds),
    _on_a_link("reorder", _reorder, some_seconds, _delay_seconds),
    _on_a_link("reset-connections", _reset, amount=Random.random),
    _on_a_link("close-connections", _close, amount=Random.random),
    _on_a_link("lose-connections", _lose, amount=Random.random),
    _on_a_link("reset-within-answer", partial(_break_answer, resets=True), amount=_some_bytes),
    _on_a_link("close-within-answer", partial(_break_answer, resets=False), amount=_some_bytes),
    _on_a_link("reset-within-request", partial(_break_request, resets=True), amount=_some_bytes),
    _on_a_link("close-within-request", partial(_break_request, resets=False), amount=_some_bytes),
)
