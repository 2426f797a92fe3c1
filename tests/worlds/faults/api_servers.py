"""Faults of API servers and their etcd. Where there are several, the others are as always."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from tests.worlds.api_server.errors import RefusedError
from tests.worlds.api_server.fairness import Fairness
from tests.worlds.api_server.messages import Answer, Request
from tests.worlds.api_server.webhooks import Verdict, Webhook
from tests.worlds.faults.durations import some_seconds
from tests.worlds.faults.plan import End, Fault, FaultKind
from tests.worlds.faults.surroundings import Surroundings

_SEAT_SECONDS: Final = 0.5
_QUEUE_LENGTH: Final = 4
_RESTART_SECONDS: Final = 1.0
# Programs try broken watches again within that time, and leaders try for longer to renew their leases.
_LOOK_SECONDS: Final = 5.0
_NOT_YET: Final = RefusedError(503, "ServiceUnavailable", "the server is currently unable to handle the request")
# As the documentation of etcd says (etcdutl snapshot restore --bump-revision).
_BUMP_REVISION: Final = 1_000_000_000


def _stop(surroundings: Surroundings, fault: Fault) -> End:
    """End the process: connections and watches end, and are refused until it is back, with an empty watch cache."""
    server = surroundings.server(fault.target)
    return surroundings.share("stop", server.name, begin=server.stop, end=server.start)


def _hang(surroundings: Surroundings, fault: Fault) -> End:
    """Stop the process where it stands: connections stay open, and nothing answers."""
    loop = surroundings.server(fault.target).loop
    loop.stops += 1

    def go_on() -> None:
        loop.stops -= 1

    return go_on


def _lag(surroundings: Surroundings, fault: Fault) -> End:
    """Let the watch cache be `amount` seconds behind etcd: watches, and lists at resource version 0."""
    server = surroundings.server(fault.target)
    return surroundings.share("lag", server.name, begin=partial(server.lag, fault.amount), end=partial(server.lag, 0.0))


def _forget_versions(surroundings: Surroundings, fault: Fault) -> None:
    """End the watches, and answer those at an older version with 410 Gone, as a watch cache that begins again does."""
    server = surroundings.server(fault.target)
    server.model.watches.restart()


def _limit(surroundings: Surroundings, fault: Fault) -> End:
    """Let priority and fairness give out `amount` seats, so that requests wait, or are refused with 429."""
    model = surroundings.server(fault.target).model

    def begin() -> None:
        model.fairness = Fairness(int(fault.amount), _SEAT_SECONDS, _QUEUE_LENGTH)

    def end() -> None:
        model.fairness = None

    return surroundings.share("limit", fault.target, begin=begin, end=end)


def _slow_webhook(surroundings: Surroundings, fault: Fault) -> End:
    """Let a webhook take up to `amount` seconds for each write. It times out after ten."""
    random = surroundings.world.random(f"webhook from {fault.at} on: {fault.target}")
    return _admit(surroundings, fault, lambda _: Verdict(random.uniform(0.0, fault.amount)))


def _refusing_webhook(surroundings: Surroundings, fault: Fault) -> End:
    """Let a webhook refuse `amount` of the writes, as a part of 1."""
    random = surroundings.world.random(f"webhook from {fault.at} on: {fault.target}")
    return _admit(surroundings, fault, lambda _: Verdict(refusal="not now" if random.random() < fault.amount else ""))


def _admit(surroundings: Surroundings, fault: Fault, decide: Callable[[Request], Verdict]) -> End:
    model = surroundings.server(fault.target).model
    webhook = Webhook("hook.example.com", decide)
    model.webhooks = (*model.webhooks, webhook)

    def end() -> None:
        model.webhooks = tuple(each for each in model.webhooks if each is not webhook)

    return end


def _compact(surroundings: Surroundings, _: Fault) -> None:
    """Compact etcd: lists at an older version, and continue tokens, get 410 Gone."""
    etcd = surroundings.api_servers.model.etcd
    etcd.compact(etcd.revision)


def _restore(surroundings: Surroundings, fault: Fault, *, bump_revision: int) -> End:
    """Save a backup of etcd; in the end, stop all API servers for a moment and go back to it.

    All that was written in between is lost. If the revision is kept, only the latest backup is restored: after two of
    them, the same revision may stand for two states, of which a program has seen the other one.
    """
    etcd, servers = surroundings.api_servers.model.etcd, surroundings.api_servers.servers.values()
    backup, restored_since = etcd.save(), list[float]()
    etcd.on_restore.append(lambda: restored_since.append(surroundings.world.timeline.now))

    def restore() -> None:
        if restored_since and not bump_revision:
            return
        starts = [surroundings.share("stop", each.name, begin=each.stop, end=each.start) for each in servers]
        # An older backup may be restored after a younger one. The revision must then be above that one's, too.
        times = 1 + max(0, etcd.revision - backup.revision) // bump_revision if bump_revision else 0
        etcd.restore(backup, bump_revision=times * bump_revision)
        for start in starts:
            surroundings.world.timeline.call_later(_RESTART_SECONDS, start)
        if not bump_revision:
            _hold_writes(surroundings)

    return restore


def _hold_writes(surroundings: Surroundings) -> None:
    """Refuse all writes for some seconds, until programs have looked.

    Had the revision reached what they have seen by then, they could not see that etcd was restored.
    """

    def gate(request: Request, carry_out: Callable[[], Answer]) -> Answer:
        return carry_out() if request.method == "GET" else _NOT_YET.response()

    for server in surroundings.api_servers.servers.values():
        server.gates.append(gate)
        surroundings.world.timeline.call_later(_RESTART_SECONDS + _LOOK_SECONDS, partial(server.gates.remove, gate))


def _on_a_server(
    name: str,
    begin: Callable[[Surroundings, Fault], End | None],
    seconds: Callable[[Random], float] = lambda _: 0.0,
    amount: Callable[[Random], float] = lambda _: 0.0,
) -> FaultKind:
    return FaultKind(name, Surroundings.server_targets, begin, seconds, amount)


def _etcd(_: Surroundings) -> Sequence[str]:
    return ["etcd"]


def _lag_seconds(random: Random) -> float:
    return float(0.05 * 200.0 ** random.random())


def _long_seconds(random: Random) -> float:
    return random.uniform(35.0, 70.0)


def _minutes(random: Random) -> float:
    return random.uniform(60.0, 180.0)


def _some_seats(random: Random) -> float:
    return float(random.randint(1, 5))


def _webhook_seconds(random: Random) -> float:
    return random.uniform(0.1, 12.0)


def _refused_part(random: Random) -> float:
    return random.uniform(0.1, 1.0)


API_SERVER_FAULTS: Final = (
    _on_a_server("stop", _stop, some_seconds),
    _on_a_server("hang", _hang, some_seconds),
    _on_a_server("lag", _lag, some_seconds, _lag_seconds),
    # Behind by more than a scheduler waits to see its bindings.
    replace(_on_a_server("stale-cache", _lag, _minutes, _long_seconds), is_drawn=False),
    _on_a_server("forget-versions", _forget_versions),
    _on_a_server("limit-requests", _limit, some_seconds, _some_seats),
    _on_a_server("slow-webhook", _slow_webhook, some_seconds, _webhook_seconds),
    _on_a_server("refusing-webhook", _refusing_webhook, some_seconds, _refused_part),
    FaultKind("compact", _etcd, _compact),
    FaultKind("restore", _etcd, partial(_restore, bump_revision=_BUMP_REVISION), some_seconds),
    # A program that was away while the revision reached what it had seen before cannot see that etcd was restored. So
    # only a theme of faults has this kind, without others that keep programs away.
    FaultKind(
        "restore-revision",
        _etcd,
        partial(_restore, bump_revision=0),
        some_seconds,
        is_drawn=False,
    ),
)
