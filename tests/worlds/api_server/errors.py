"""The API server's refusals as metav1.Status, with the texts and codes of apimachinery's pkg/api/errors."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.messages import Response


class RefusedError(Exception):
    """An answer that is an error; `status` is its metav1.Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata or {},
            "status": "Failure",
            "message": message,
            "code": code,
        }
        if reason:
            self.status["reason"] = reason
        if details:
            self.status["details"] = details

    def response(self) -> Response:
        """Return the refusal as an answer."""
        headers = {"content-type": "application/json"}
        seconds = self.status.get("details", {}).get("retryAfterSeconds")
        if seconds:
            headers["retry-after"] = str(seconds)
        return Response(self.status["code"], msgspec.json.encode(self.status), headers)


def about(kind: Kind, name: str, subresource: str = "") -> dict[str, Any]:
    """Return the details that name an object; `kind` is its plural, as in Go."""
    plural = f"{kind.plural}/{subresource}" if subresource else kind.plural
    return {"name": name, **({"group": kind.group} if kind.group else {}), "kind": plural}


def not_found(kind: Kind, name: str) -> RefusedError:
    return RefusedError(404, "NotFound", f'{kind.qualified} "{name}" not found', about(kind, name))


def path_not_found() -> RefusedError:
    return RefusedError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str, *, is_being_deleted: bool = False) -> RefusedError:
    text = f'{kind.qualified} "{name}" already exists'
    if is_being_deleted:
        text = f"object is being deleted: {text}"
    return RefusedError(409, "AlreadyExists", text, about(kind, name))


def conflict(kind: Kind, name: str, why: str, *, subresource: str = "") -> RefusedError:
    qualified = kind.qualified if not subresource else f"{kind.plural}/{subresource}"
    text = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    return RefusedError(409, "Conflict", text, about(kind, name, subresource))


def stale(kind: Kind, name: str) -> RefusedError:
    """The object has another version than the request's."""
    text = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, text)


def bad_request(message: str) -> RefusedError:
    return RefusedError(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str) -> RefusedError:
    return RefusedError(403, "Forbidden", f'{kind.qualified} "{name}" is forbidden: {why}', about(kind, name))


def expired(message: str, *, next_token: str = "") -> RefusedError:
    return RefusedError(410, "Expired", message, metadata={"continue": next_token} if next_token else None)


def internal(message: str) -> RefusedError:
    text = f"Internal error occurred: {message}"
    return RefusedError(500, "InternalError", text, {"causes": [{"message": message}]})


def method_not_allowed() -> RefusedError:
    return RefusedError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def json_error(error: msgspec.DecodeError) -> str:
    """Return what Go says of a body that ends too early; of others, what msgspec says."""
    return "unexpected end of JSON input" if "truncated" in str(error) else str(error)


def too_large_version(asked: int, current: int, *, retry_seconds: int = 0) -> RefusedError:
    """A read at a version that is yet to come."""
    text = f"Too large resource version: {asked}, current: {current}"
    details: dict[str, Any] = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    }
    if retry_seconds:
        details["retryAfterSeconds"] = retry_seconds
    return RefusedError(504, "Timeout", f"Timeout: {text}", details)


def future_revision() -> RefusedError:
    """Etcd's own words about a revision that is yet to come, which older releases pass on."""
    return RefusedError(500, "", "etcdserver: mvcc: required revision is a future revision")


def invalid(kind: str, group: str, name: str, causes: Sequence[tuple[str, str, str]]) -> RefusedError:
    """An object that is not valid. A cause is a reason such as FieldValueInvalid, a text, and the field's path."""
    texts = [f"{path}: {text}" for _, text, path in causes]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details = {
        **({"name": name} if name else {}),
        **({"group": group} if group else {}),
        "kind": kind,
        "causes": [{"reason": reason, "message": text, "field": path} for reason, text, path in causes],
    }
    return RefusedError(422, "Invalid", f'{qualified} "{name}" is invalid: {joined}', details)
