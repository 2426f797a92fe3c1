"""What can go wrong between this process and the API server, as exceptions that say what to do about it."""

from collections.abc import Mapping

import msgspec

# metav1.CauseTypeResourceVersionTooLarge, and its text in the releases that knew no such cause.
_TOO_LARGE_CAUSE = "ResourceVersionTooLarge"
_TOO_LARGE_TEXT = "Too large resource version"


class StatusCause(msgspec.Struct, frozen=True, gc=False):
    """metav1.StatusCause; its type is called reason on the wire."""

    reason: str = ""
    message: str = ""


class StatusDetails(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """metav1.StatusDetails."""

    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class ApiStatus(msgspec.Struct, frozen=True, gc=False):
    """metav1.Status, the API server's answer where it has no object to give."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class KubeError(Exception):
    """A request to the API server did not succeed."""


class UnreachableError(KubeError):
    """No answer, or not all of it: the connection failed. Whether a write took effect is unknown."""


class SilentError(UnreachableError):
    """A connection brought nothing for so long that it counts as dead, though nobody has closed it."""


class HistoryError(KubeError):
    """The API server's latest version is older than what was seen: its etcd was restored from a snapshot."""


class InvalidAnswerError(KubeError):
    """The answer is not what the API promises: cut short, not JSON, or of another type."""


class ApiError(KubeError):
    """The API server said no, in an HTTP status or in the ERROR event of a watch."""

    def __init__(self, status: ApiStatus, retry_after_seconds: float | None = None) -> None:
        self.status_code = status.code
        self.reason = status.reason
        self.message = status.message
        self.causes = status.details.causes if status.details else ()
        if retry_after_seconds is None and status.details and status.details.retry_after_seconds > 0:
            retry_after_seconds = float(status.details.retry_after_seconds)
        self.retry_after_seconds = retry_after_seconds
        code = f"{self.status_code} {self.reason}".strip()
        super().__init__(f"{self.message} ({code})" if self.message else code)

    @property
    def expired(self) -> bool:
        """A resource version or continue token is too old to go on from (client-go: isExpiredError)."""
        return self.status_code == 410 or self.reason in ("Expired", "Gone")

    @property
    def too_large_resource_version(self) -> bool:
        """A resource version lies in the server's future (client-go: isTooLargeResourceVersionError)."""
        if any(cause.reason == _TOO_LARGE_CAUSE for cause in self.causes):
            return True
        texts = [self.message, *(cause.message for cause in self.causes)]
        return self.reason == "Timeout" and any(_TOO_LARGE_TEXT in text for text in texts)

    @property
    def is_about_version(self) -> bool:
        """It is no use to go on from this resource version."""
        return self.expired or self.too_large_resource_version


def error_from_response(status_code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the ApiError of an HTTP response; a body that is no metav1.Status (a proxy's page) becomes its message."""
    try:
        status = msgspec.json.decode(body, type=ApiStatus)
    except msgspec.DecodeError:
        status = ApiStatus(message=" ".join(body[:200].decode(errors="replace").split()))
    retry_after = headers.get("Retry-After", "")
    return ApiError(
        msgspec.structs.replace(status, code=status_code),
        retry_after_seconds=float(retry_after) if retry_after.isdecimal() else None,
    )
