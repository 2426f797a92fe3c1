"""Errors of requests to the API server, as exceptions, by how the caller can react: try again, list again, give up."""

from collections.abc import Mapping

import msgspec

from extender_service.kube.parsing.decoder import DecodeError, Decoder

# metav1.CauseTypeResourceVersionTooLarge, and the message of older releases, which do not set this cause.
_TOO_LARGE_CAUSE = "ResourceVersionTooLarge"
_TOO_LARGE_TEXT = "Too large resource version"
_MOST_RETRY_AFTER_SECONDS = 60.0
# Of a write to an object with another UID: Preconditions.Check, rest.BeforeDelete.
_OTHER_UID_CONFLICTS = ("UID in precondition", "UID in the precondition")
_OTHER_UID_TEXT = "metadata.uid: Invalid value"


class StatusCause(msgspec.Struct, frozen=True, gc=False):
    """metav1.StatusCause. Go's field Type is `reason` in JSON."""

    reason: str = ""
    message: str = ""


class StatusDetails(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """metav1.StatusDetails."""

    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class ApiStatus(msgspec.Struct, frozen=True, gc=False):
    """metav1.Status, which the API server returns in place of an object, mostly for errors."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


_statuses = Decoder(ApiStatus)


class KubeError(Exception):
    """A request to the API server failed."""


class UnreachableError(KubeError):
    """The connection failed before the whole answer arrived. A write may have taken effect."""


class RefusedError(UnreachableError):
    """Nothing listens at the address, so the request was not sent."""


class LargeAnswerError(UnreachableError):
    """The answer has more bytes than it may have. Its connection was closed before the rest came."""


class SilentError(UnreachableError):
    """A connection is open, but delivered no data for `seconds`: so long that we consider it dead."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = seconds


class DoubtError(UnreachableError):
    """A connection was given up though it may be good: it was quiet for long, or since another one fell silent."""


class HistoryError(KubeError):
    """The API server's latest resource version is older than one that we have seen: etcd was restored from a backup."""


class InvalidAnswerError(KubeError):
    """The answer violates the API: it is incomplete, not JSON, or of an unexpected type."""


class ApiError(KubeError):
    """The API server refused a request, in an HTTP status or in the ERROR event of a watch.

    `asks_to_retry`: the same request may succeed after `retry_after_seconds` (client-go's rule: checkWait in
    rest/with_retry.go; what the status says in its details does not count).

    `retry_after_seconds` is 60 at most. client-go waits for as long as it is asked to, for watches too: a load balancer
    that answers with `Retry-After: 3600` during a minute of maintenance would hold up all watches for an hour. API
    servers ask for seconds.
    """

    def __init__(self, status: ApiStatus, retry_after_seconds: float | None = None) -> None:
        self.status_code = status.code
        self.reason = status.reason
        self.message = status.message
        self.causes = status.details.causes if status.details else ()
        self.asks_to_retry = retry_after_seconds is not None and (status.code == 429 or status.code >= 500)
        if retry_after_seconds is None and status.details and status.details.retry_after_seconds > 0:
            retry_after_seconds = float(status.details.retry_after_seconds)
        if retry_after_seconds is not None:
            retry_after_seconds = min(retry_after_seconds, _MOST_RETRY_AFTER_SECONDS)
        self.retry_after_seconds = retry_after_seconds
        code = f"{self.status_code} {self.reason}".strip()
        super().__init__(f"{self.message} ({code})" if self.message else code)

    @property
    def says_gone(self) -> bool:
        """Whether no object with the name and the UID that a write names is there: there is none, or another one.

        A patch with another UID is refused as one that would change it (ValidateObjectMetaUpdate). A conflict about
        the version says nothing: the API server gives up if others write to the object again and again.
        """
        if self.status_code == 409:
            return any(text in self.message for text in _OTHER_UID_CONFLICTS)
        return self.status_code == 404 or (self.status_code == 422 and _OTHER_UID_TEXT in self.message)

    @property
    def expired(self) -> bool:
        """Whether the resource version or continue token is too old (client-go: isExpiredError)."""
        return self.status_code == 410 or self.reason in ("Expired", "Gone")

    @property
    def too_large_resource_version(self) -> bool:
        """Whether the API server has not reached this version (client-go: isTooLargeResourceVersionError)."""
        if any(cause.reason == _TOO_LARGE_CAUSE for cause in self.causes):
            return True
        texts = [self.message, *(cause.message for cause in self.causes)]
        return self.reason == "Timeout" and any(_TOO_LARGE_TEXT in text for text in texts)

    @property
    def is_about_version(self) -> bool:
        """Whether the caller must list again, because it cannot continue from its resource version."""
        return self.expired or self.too_large_resource_version


def error_from_response(status_code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the ApiError of an HTTP response. A body that is not a metav1.Status (a proxy's) becomes its message."""
    try:
        status = _statuses.decode(body)
    except DecodeError:
        status = ApiStatus(message=" ".join(body[:200].decode(errors="replace").split()))
    retry_after = headers.get("Retry-After", "")
    return ApiError(
        msgspec.structs.replace(status, code=status_code),
        retry_after_seconds=float(retry_after) if retry_after.isdecimal() and len(retry_after) < 10 else None,
    )
