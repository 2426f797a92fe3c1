"""Whom we trust to be the API server, while its certificate authority may be replaced."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from extender_service.kube.credentials.client_tls import ServerTrust, client_context
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.files import REREAD_SECONDS, RETRY_SECONDS, read_file

log = logging.getLogger(__name__)


class CurrentTrust:
    """Caches how to verify the API server. Reads the file of its authorities again every minute.

    Sooner, if a certificate was not trusted: an API server may show one of its new authority before a minute is over.
    client-go reads the file every five minutes only (transport/ca_rotation.go; by default from Kubernetes 1.36 on).
    """

    def __init__(self, trust: ServerTrust, path: str = "", now: Callable[[], float] = time.time) -> None:
        """`path` is the file that `trust.ca_pem` was read from just now; empty if these authorities stay."""
        self._trust = trust
        self._path = path
        self._now = now
        self._logged = ""
        self._read_at = now() if path else 0.0
        self._read_again_at = self._read_at + REREAD_SECONDS

    def current(self) -> ServerTrust:
        """Return how to verify the API server: the same object while nothing changes.

        If the file has to be read again and cannot be used, log a warning and keep the last authorities.
        """
        # The system's clock may be set back.
        if self._path and not self._read_at <= self._now() < self._read_again_at:
            self._read()
        return self._trust

    def doubt(self) -> None:
        """Read the file again soon, because a certificate was not trusted: a second after the last time."""
        self._read_again_at = min(self._read_again_at, self._read_at + RETRY_SECONDS)

    def _read(self) -> None:
        self._read_at = self._now()
        try:
            newest = self._newest()
        except CredentialsError as error:
            if str(error) != self._logged:
                log.warning("%s; using the last authorities that could be used", error)
            self._logged = str(error)
            self._read_again_at = self._read_at + RETRY_SECONDS
            return
        self._logged = ""
        self._read_again_at = self._read_at + REREAD_SECONDS
        if newest is not self._trust:
            self._trust = newest
            log.info("%s: certificate-authority %s has changed", newest.origin, self._path)

    def _newest(self) -> ServerTrust:
        what = f"{self._trust.origin}: certificate-authority"
        ca_pem = read_file(self._path, what)
        if ca_pem == self._trust.ca_pem:
            return self._trust
        if not ca_pem:  # which would mean the system's authorities
            raise CredentialsError(f"{what} {self._path}: the file is empty")
        newest = replace(self._trust, ca_pem=ca_pem)
        client_context(newest, b"", b"", "")
        return newest
