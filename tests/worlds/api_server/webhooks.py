"""Admission webhooks: hooks of a world that make writes slow, or refuse them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.worlds.api_server import errors
from tests.worlds.api_server.messages import Request


@dataclass(frozen=True)
class Verdict:
    """What a webhook answers after `seconds`: it allows the write unless `refusal` says why not.

    `code` is the status of its refusal. A webhook that takes longer than its time-out counts as failed.
    """

    seconds: float = 0.0
    refusal: str = ""
    code: int = 403


@dataclass(frozen=True)
class Webhook:
    """A webhook with the failure policy Fail. `decide` is asked about each write, by its request."""

    name: str
    decide: Callable[[Request], Verdict]
    timeout_seconds: float = 10.0


def ask(webhooks: Sequence[Webhook], request: Request) -> tuple[float, errors.RefusedError | None]:
    """Return how long the webhooks take, one after the other, and the first refusal."""
    seconds = 0.0
    for webhook in webhooks:
        verdict = webhook.decide(request)
        seconds += min(verdict.seconds, webhook.timeout_seconds)
        if verdict.seconds > webhook.timeout_seconds:
            text = f'failed calling webhook "{webhook.name}": failed to call webhook: context deadline exceeded'
            return seconds, errors.internal(text)
        if verdict.refusal:
            text = f'admission webhook "{webhook.name}" denied the request: {verdict.refusal}'
            return seconds, errors.RefusedError(verdict.code, "Forbidden" if verdict.code == 403 else "", text)
    return seconds, None
