"""TLS of the server: its certificate, and the clients' certificates that it accepts. Changed files are reloaded.

The files may be those of a mounted Secret. Then all change at once, as the kubelet replaces a symbolic link.
"""

import asyncio
import hashlib
import logging
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extender_service.seams import WallClock
from extender_service.serving.refusals import RefusalReason, Refusals
from extender_service.serving.verified_chains import VerifiedChains

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
_NAME_KINDS = ("DNS", "URI", "email")


class TLSError(Exception):
    """A file cannot be used; the text is one line that begins with the option that names the file."""


@dataclass(frozen=True)
class TLSFiles:
    """PEM files: our certificate chain, its key, and the clients' authorities (None: clients need no certificate).

    A client's certificate must have one of the `allowed_names` as a CN or SAN, unless there are none. `ciphers` are
    OpenSSL's names of cipher suites up to TLS 1.2, with colons between them; empty stands for its default.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    allowed_names: frozenset[str] = frozenset()
    minimum_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: str = ""


class ServingCertificates:
    """The last usable content of the files. `context` applies it to each new connection.

    Open connections are not checked again: a client that older files admitted keeps its connection until it ends.
    """

    def __init__(
        self,
        files: TLSFiles,
        refusals: Refusals,
        *,
        poll_seconds: float = POLL_SECONDS,
        wall_clock: WallClock = time.time,
    ) -> None:
        """Read the files. Raises TLSError."""
        self._files = files
        self._poll_seconds = poll_seconds
        self.refusals = refusals
        self._wall_clock = wall_clock
        self._seen = self._digest()
        self._invited = ""
        self.context = _NewestContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.newest = self._load()

    def invite(self, authorities: str) -> None:
        """Ask clients for a certificate of these authorities (PEM) from now on, but accept clients without one.

        Raises TLSError if there is no certificate in the text.
        """
        if authorities != self._invited:
            self.context.newest = self._load(authorities)
            self._invited = authorities

    async def follow(self) -> None:
        """Reload the files whenever they change. If they cannot be used, log why and keep the last good ones."""
        logged = ""
        while True:
            await asyncio.sleep(self._poll_seconds)
            seen, invited = self._seen, self._invited
            try:
                # In a thread: a folder that hangs must not hold up decisions.
                newest = await asyncio.to_thread(self._load_if_outdated)
            except TLSError as error:
                if str(error) != logged:
                    log.warning("the certificates cannot be read, the last good ones stay: %s", error)
                logged = str(error)
                continue
            logged = ""
            if newest is not None and invited != self._invited:
                # Others were invited while the thread was loading: load again.
                self._seen = b""
            elif newest is not None:
                self.context.newest = newest
                if seen != self._seen:
                    log.info("the certificates have changed")

    def _load_if_outdated(self) -> "_Context | None":
        seen = self._digest()
        if seen == self._seen and not self.context.newest.has_outdated_sessions:
            return None
        newest = self._load(self._invited)
        # Read before loading, so that the next turn sees a change in between.
        self._seen = seen
        return newest

    def _load(self, invited: str = "") -> "_Context":
        context = _load(self._files, invited)
        context.refusals = self.refusals
        context.wall_clock = self._wall_clock
        return context

    def _digest(self) -> bytes:
        # Compare the content, since a file may change within one tick of its modification time.
        digest = hashlib.sha256()
        for option, path in _options(self._files):
            try:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError as error:
                raise TLSError(f"{option}: {path}: {error.strerror}") from error
        return digest.digest()


def _options(files: TLSFiles) -> list[tuple[str, Path]]:
    own = [("--tls-cert-file", files.certificate), ("--tls-private-key-file", files.key)]
    return own if files.client_ca is None else [*own, ("--client-ca-file", files.client_ca)]


def _load(files: TLSFiles, invited: str) -> "_Context":
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.allowed_names = files.allowed_names
    context.chains = VerifiedChains()
    context.minimum_version = files.minimum_version
    context.set_alpn_protocols(["http/1.1"])
    # No session is resumed, since that skips the check of the certificate. For TLS 1.2, see verified_chains.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        # Given a password, OpenSSL does not prompt for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password="")
    except ssl.SSLError as error:
        raise TLSError(
            f"--tls-cert-file, --tls-private-key-file: {files.certificate} and {files.key} must be PEM, unencrypted, "
            f"and belong together ({error.reason or 'not PEM'})"
        ) from error
    except OSError as error:
        raise TLSError(f"--tls-cert-file, --tls-private-key-file: {files.certificate}: {error.strerror}") from error
    if files.ciphers:
        try:
            context.set_ciphers(files.ciphers)
        except ssl.SSLError as error:
            raise TLSError(f"--tls-cipher-suites: OpenSSL knows none of {files.ciphers}") from error
    if files.client_ca is not None:
        _require_certificate(context, files.client_ca)
    elif invited:
        _invite_certificate(context, invited)
    return context


def _invite_certificate(context: ssl.SSLContext, authorities: str) -> None:
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        # Python takes only ASCII. Text between the certificates may have any letters.
        context.load_verify_locations(cadata=authorities.encode("ascii", errors="ignore").decode("ascii"))
    except ssl.SSLError as error:
        raise TLSError("the authorities of clients have no PEM certificate") from error


def _require_certificate(context: ssl.SSLContext, client_ca: Path) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    # As in Go, any certificate of the file is an authority, not only those that signed themselves.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(client_ca)
    except ssl.SSLError as error:
        raise TLSError(f"--client-ca-file: {client_ca} has no PEM certificate") from error
    except OSError as error:
        raise TLSError(f"--client-ca-file: {client_ca}: {error.strerror}") from error


class _NewestContext(ssl.SSLContext):
    """Delegates to the newest context: an event loop uses the one that it was given for each new connection."""

    newest: "_Context"

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any) -> ssl.SSLObject:
        connection = self.newest.wrap_bio(incoming, outgoing, *args, **options)
        assert isinstance(connection, TLSConnection)
        connection.outgoing = outgoing
        return connection


class TLSConnection(ssl.SSLObject):
    """The server's side of a connection. It ends the handshake of a client that is not allowed.

    `verified_chain` has the client's certificate and those up to an authority, as DER; it is empty if there is none.
    """

    outgoing: ssl.MemoryBIO
    verified_chain: frozenset[bytes] = frozenset()
    _is_refused = False

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises ssl.SSLError if the client is refused."""
        if self._is_refused:
            raise ssl.SSLError("the client was refused")
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._is_refused = True
            self._context.refusals.add(_reason(error), _problem(error))
            if not self.outgoing.pending:
                raise
            # OpenSSL has an alert for the client, which event loops drop with the connection (CPython issue 98078).
            # Asked to wait for more data, they send it first. The next data ends the connection, or its time limit.
            raise ssl.SSLWantReadError from error
        self._require_valid_chain()
        self._require_allowed_name()

    def unwrap(self) -> None:
        """Send close_notify, and do not wait for the client's."""
        # As Go does: a client that never answers would delay shutdown.
        with suppress(ssl.SSLWantReadError):
            super().unwrap()

    @property
    def _context(self) -> "_Context":
        context = self.context
        assert isinstance(context, _Context)
        return context

    def _require_valid_chain(self) -> None:
        if self.getpeercert(binary_form=True) is None:
            return
        context = self._context
        chain = context.chains.of(self)
        if chain is None or (self.session_reused and context.wall_clock() >= chain.expires_seconds):
            context.has_outdated_sessions = True
            problem = "the client resumes a session, and its certificate has expired since or is no longer known"
            context.refusals.add("certificate", problem)
            raise ssl.SSLCertVerificationError(problem)
        self.verified_chain = chain.certificates

    def _require_allowed_name(self) -> None:
        allowed = self._context.allowed_names
        if not allowed:
            return
        names = _names(self.getpeercert() or {})
        if allowed.isdisjoint(names):
            self._context.refusals.add("name", f"the client's names are not allowed: {', '.join(names) or 'none'}")
            raise ssl.SSLCertVerificationError("the client's names are not allowed")


class _Context(ssl.SSLContext):
    """What applies to the connections that begin with these files.

    `has_outdated_sessions`: a client that resumes a session was refused. It may have a new certificate by now, but it
    resumes that session again and again. The next context knows no session, so there it shows its certificate.
    """

    sslobject_class = TLSConnection
    allowed_names: frozenset[str]
    refusals: Refusals
    wall_clock: WallClock
    chains: VerifiedChains
    has_outdated_sessions = False


def _names(certificate: Mapping[str, Any]) -> list[str]:
    """The CN and the SANs of a certificate as the ssl module describes it."""
    common = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return common + [value for kind, value in certificate.get("subjectAltName", ()) if kind in _NAME_KINDS]


def _reason(error: ssl.SSLError) -> RefusalReason:
    is_missing = error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    return "certificate" if is_missing or isinstance(error, ssl.SSLCertVerificationError) else "protocol"


def _problem(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    return (error.reason or "no TLS").lower().replace("_", " ")
