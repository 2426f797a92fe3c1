"""An ASGI application that only authorized callers reach."""

import asyncio
import json

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from extender_service.serving.callers.authentication import Authenticator
from extender_service.serving.callers.authorization import Authorizer, ReviewError
from extender_service.serving.callers.peer_certificates import peer_certificate
from extender_service.serving.callers.users import UnauthenticatedError, UserInfo
from extender_service.serving.refusals import Refusals
from extender_service.serving.scope import HUNG_UP, TLS_CONNECTION, HungUp

_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-cache, private"}
# How often to look whether a caller still waits.
_LOOK_SECONDS = 0.5


def require_authorization(
    app: ASGIApp, authenticator: Authenticator, authorizer: Authorizer, refusals: Refusals
) -> ASGIApp:
    """Return an application that answers 401 or 403 as the API server does, or lets the request through."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        deciding = asyncio.create_task(_refusal(scope, authenticator, authorizer, refusals))
        refusal = await _unless_hung_up(deciding, scope.get(HUNG_UP, _never))
        await (app if refusal is None else refusal)(scope, receive, send)

    return answer


async def _unless_hung_up(deciding: asyncio.Task[Response | None], has_hung_up: HungUp) -> Response | None:
    """Return what is decided; or stop that, as the caller has hung up, and return an answer that is not read."""
    try:
        while not deciding.done():
            await asyncio.wait([deciding], timeout=_LOOK_SECONDS)
            if not deciding.done() and has_hung_up():
                return _status(503, "ServiceUnavailable", "the caller has hung up")
        return deciding.result()
    finally:
        deciding.cancel()


async def _refusal(
    scope: Scope, authenticator: Authenticator, authorizer: Authorizer, refusals: Refusals
) -> Response | None:
    # UTF-8, as a proxy writes names of users; what is not becomes U+FFFD, as in the JSON that Go writes.
    headers = [(name.decode(errors="replace"), value.decode(errors="replace")) for name, value in scope["headers"]]
    verb, path = scope["method"].lower(), scope["path"]
    try:
        user = await authenticator.authenticate(headers, peer_certificate(scope.get(TLS_CONNECTION)))
        access = await authorizer.may(user, verb, path)
    except UnauthenticatedError as error:
        refusals.add("caller", f"it is not known who calls: {error}")
        return _status(401, "Unauthorized", "Unauthorized")
    except ReviewError as error:
        refusals.add("review", f"cannot find out whether the caller may do this: {error}")
        return Response(f"Internal Server Error: {json.dumps(path)}: {error}\n", 500, _HEADERS, "text/plain")
    if access.allowed:
        return None
    return _status(403, "Forbidden", _forbidden(user, verb, path, access.reason))


def _never() -> bool:
    return False


def _forbidden(user: UserInfo, verb: str, path: str, reason: str) -> str:
    text = f"forbidden: User {json.dumps(user.name)} cannot {verb} path {json.dumps(path)}"
    return f"{text}: {reason}" if reason else text


def _status(code: int, reason: str, message: str) -> Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return Response(json.dumps(status) + "\n", code, _HEADERS, "application/json")
