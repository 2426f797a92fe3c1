"""Reviews, by which the API server says who callers are and what they may do, and the limit on how many there are."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.reviews.delegated_reviews import review_path, review_token
from extender_service.serving.callers.authorization import Access, ReviewError
from extender_service.serving.callers.users import UnauthenticatedError, UserInfo

ANSWER_SECONDS = 10.0


class Reviews:
    """The reviews under way, at most `most` at a time.

    Each review takes a place, and so does each further caller that waits for the same review, while it waits.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0

    async def user_of(self, client: KubeClient, token: str) -> UserInfo | None:
        """Return the user of a token, None if it is not valid. Raises UnauthenticatedError if the review fails."""
        with _as_unauthenticated():
            async with self._one_more():
                status = await review_token(client, token)
        if status.authenticated:
            user = status.user
            return UserInfo(user.username, user.uid, user.groups, tuple(user.extra.items()))
        if status.error:  # the review may have failed, so the answer must not be kept
            raise UnauthenticatedError(f"the API server says of the token: {status.error}")
        return None

    async def access_of(self, client: KubeClient, user: UserInfo, verb: str, path: str) -> Access:
        """Return whether a user may use a verb on a path. Raises ReviewError if the review fails."""
        subject = {"user": user.name, "uid": user.uid, "groups": user.groups, "extra": dict(user.extra)}
        try:
            async with self._one_more():
                status = await review_path(client, subject, verb, path)
        except (KubeError, CredentialsError) as error:
            raise ReviewError(str(error)) from error
        return Access(status.allowed and not status.denied, status.reason)

    @contextmanager
    def waiting_for_token(self) -> Iterator[None]:
        """Count one who waits for another's review within the context. Raises UnauthenticatedError if too many wait."""
        with _as_unauthenticated(), self._place():
            yield

    @asynccontextmanager
    async def _one_more(self) -> AsyncIterator[None]:
        """Count a review within the context. Raises ReviewError if too many are under way, or it takes too long."""
        try:
            with self._place():
                async with asyncio.timeout(ANSWER_SECONDS):
                    yield
        except TimeoutError as error:
            raise ReviewError(f"the API server took longer than {ANSWER_SECONDS:g} s to answer") from error

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._taken >= self._most:
            raise ReviewError(f"{self._most} other callers wait for the API server's answer")
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


@contextmanager
def _as_unauthenticated() -> Iterator[None]:
    """Raise UnauthenticatedError where a review of a token fails."""
    try:
        yield
    except (KubeError, CredentialsError, ReviewError) as error:
        raise UnauthenticatedError(f"the token cannot be reviewed: {error}") from error
