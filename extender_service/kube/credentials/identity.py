"""Our identity at the API server, its sources, and when to read it again."""

import asyncio
import base64
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from extender_service.kube.credentials.client_tls import require_pair
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.exec_plugin import ExecPlugin
from extender_service.kube.credentials.files import REREAD_SECONDS, RETRY_SECONDS, read_file
from extender_service.kube.credentials.header_values import require_header_value
from extender_service.kube.credentials.kubeconfig import User

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Identity:
    """An Authorization header, a client certificate with its key (PEM), both, or neither."""

    authorization: str = field(default="", repr=False)
    certificate_pem: bytes = field(default=b"", repr=False)
    key_pem: bytes = field(default=b"", repr=False)


class IdentitySource(Protocol):
    """A source of identities: the fields of a kubeconfig user, or an exec plugin."""

    async def read(self) -> tuple[Identity, float]:
        """Return the identity, and the time to read it again in seconds since 1970. Raises CredentialsError."""


class KubeconfigUser:
    """The identity in the fields of a kubeconfig user, and in the files that they name. `last` is the last one read.

    The constructor reads it, too, and raises CredentialsError: so an unreadable file stops the service at the start.
    Errors name the fields of the certificate and of its key by `field_names`.
    """

    def __init__(
        self,
        user: User,
        origin: str,
        now: Callable[[], float] = time.time,
        field_names: tuple[str, str] = ("client-certificate", "client-key"),
    ) -> None:
        self._user = user
        self._origin = origin
        self._now = now
        self._field_names = field_names
        self._logged = ""
        self.last = self._read_fields()

    async def read(self) -> tuple[Identity, float]:
        """Read the fields and files.

        If a file is unreadable, or a new certificate and key do not belong together, log a warning and keep the last
        identity.
        """
        user = self._user
        if not (user.token_file or user.client_certificate or user.client_key):
            return self.last, math.inf
        try:
            self.last = self._read_usable()
        except CredentialsError as error:
            if str(error) != self._logged:
                log.warning("%s; using the last identity that could be used", error)
            self._logged = str(error)
            return self.last, self._now() + RETRY_SECONDS
        self._logged = ""
        return self.last, self._now() + REREAD_SECONDS

    def _read_usable(self) -> Identity:
        identity, last = self._read_fields(), self.last
        if (identity.certificate_pem, identity.key_pem) != (last.certificate_pem, last.key_pem):
            require_pair(identity.certificate_pem, identity.key_pem, self._origin)
        return identity

    def _read_fields(self) -> Identity:
        user, origin = self._user, self._origin
        certificate_field, key_field = self._field_names
        certificate = user.client_certificate_data or read_file(
            user.client_certificate, f"{origin}: {certificate_field}"
        )
        key = user.client_key_data or read_file(user.client_key, f"{origin}: {key_field}")
        if bool(certificate) != bool(key):
            raise CredentialsError(
                f"{origin}: set both, {certificate_field} and {key_field} (or their data), or neither"
            )
        # As in client-go, a file's token is trimmed, and the one in the kubeconfig itself is not.
        token = user.token or read_file(user.token_file, f"{origin}: tokenFile").decode(errors="replace").strip()
        if user.token_file and not token:
            raise CredentialsError(f"{origin}: tokenFile {user.token_file}: the file is empty")
        source = "token" if user.token else f"tokenFile {user.token_file}: the token"
        require_header_value(token, f"{origin}: {source}")
        basic = user.username or user.password
        if token and basic:
            raise CredentialsError(f"{origin}: set a token or username and password, not both")
        authorization = f"Bearer {token}" if token else ""
        if basic:
            authorization = "Basic " + base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return Identity(authorization, certificate, key)


class ExecUser:
    """The identity that an exec plugin answers with."""

    def __init__(self, plugin: ExecPlugin) -> None:
        self._plugin = plugin

    async def read(self) -> tuple[Identity, float]:
        """Run the plugin. Its credentials are valid until `expirationTimestamp`, or until rejected without one."""
        status = await self._plugin.run()
        identity = Identity(
            f"Bearer {status.token}" if status.token else "",
            status.client_certificate_data.encode(),
            status.client_key_data.encode(),
        )
        return identity, status.expiration_timestamp.timestamp() if status.expiration_timestamp else math.inf


class CurrentIdentity:
    """Caches the identity of a source. Reads it again when it expires, or when the API server rejects it."""

    def __init__(self, source: IdentitySource, now: Callable[[], float] = time.time) -> None:
        self._source = source
        self._now = now
        self._identity: Identity | None = None
        self._read_again_at = 0.0
        self._reading = asyncio.Lock()

    def current(self) -> Identity | None:
        """Return the identity while it is valid. None if it has to be read, or is being read: then await `get`."""
        is_valid = self._now() < self._read_again_at and not self._reading.locked()
        return self._identity if is_valid else None

    async def get(self) -> Identity:
        """Return a valid identity; raises CredentialsError."""
        async with self._reading:
            if self._identity is None or self._now() >= self._read_again_at:
                self._identity, self._read_again_at = await self._source.read()
            return self._identity

    async def renew(self, rejected: Identity) -> Identity:
        """Read a new identity to replace the rejected one; may return an equal one. Raises CredentialsError."""
        async with self._reading:
            if self._identity == rejected:  # if not, another request has already renewed it
                self._identity, self._read_again_at = await self._source.read()
            return self._identity or rejected

    def doubt(self, unusable: Identity) -> None:
        """Read the identity again at the next `get`, if this is still the current one."""
        if self._identity == unusable:
            self._read_again_at = 0.0
