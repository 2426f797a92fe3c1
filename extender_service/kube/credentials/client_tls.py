"""TLS to the API server: trusted authorities, the expected server name, and the client certificate."""

import ssl
import tempfile
from dataclasses import dataclass
from typing import Any

from extender_service.kube.credentials.errors import CredentialsError


@dataclass(frozen=True)
class ServerTrust:
    """How to verify the API server's certificate.

    - `ca_pem`: the trusted authorities; empty for those of the system
    - `server_name`: the name that the certificate must have; empty for the host in the URL
    - `insecure`: accept any certificate
    - `origin`: where these values are configured, for error texts
    """

    ca_pem: bytes = b""
    server_name: str = ""
    insecure: bool = False
    origin: str = ""


class _PinnedNameContext(ssl.SSLContext):
    """Sends and verifies one server name, regardless of the host in the URL (kubeconfig's tls-server-name).

    The HTTP library has an option for this, but ignores it when it connects through a proxy.
    """

    server_name = ""

    def wrap_bio(self, incoming: Any, outgoing: Any, *args: Any, **options: Any) -> ssl.SSLObject:
        server_side = args[0] if args else options.get("server_side", False)
        return super().wrap_bio(incoming, outgoing, server_side, self.server_name)


def client_context(trust: ServerTrust, certificate_pem: bytes, key_pem: bytes, origin: str) -> ssl.SSLContext:
    """Return a context that verifies the server as `trust` says, and presents the client certificate, if there is one.

    `origin` is where the client certificate is configured, for error texts. Raises CredentialsError.
    """
    context = (
        _PinnedNameContext(ssl.PROTOCOL_TLS_CLIENT) if trust.server_name else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    if isinstance(context, _PinnedNameContext):
        context.server_name = trust.server_name
        _check_server_name(context, trust.origin)
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.ca_pem:
        try:
            # Between the certificates, a file may have text in any encoding; Go ignores it, too.
            context.load_verify_locations(cadata=trust.ca_pem.decode("ascii", errors="ignore"))
        except (ssl.SSLError, ValueError) as error:
            raise CredentialsError(f"{trust.origin}: certificate-authority is not a PEM certificate") from error
    else:
        context.load_default_certs()
    if certificate_pem:
        _load_certificate(context, certificate_pem, key_pem, origin)
    return context


def require_pair(certificate_pem: bytes, key_pem: bytes, origin: str) -> None:
    """Raise CredentialsError unless the client certificate and the key can be used together."""
    _load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate_pem, key_pem, origin)


def _check_server_name(context: _PinnedNameContext, origin: str) -> None:
    try:
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
    except (TypeError, ValueError) as error:
        raise CredentialsError(f"{origin}: tls-server-name is not the name of a host") from error


def _load_certificate(context: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes, origin: str) -> None:
    # OpenSSL reads certificate and key only from files. This file exists briefly, and only our user can read it.
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate_pem + b"\n" + key_pem)
            file.flush()
            context.load_cert_chain(file.name, password="")
    except ssl.SSLError as error:
        raise CredentialsError(
            f"{origin}: the client certificate and its key must be PEM, unencrypted, and belong together"
            f" ({error.reason or 'not PEM'})"
        ) from error
    except OSError as error:
        raise CredentialsError(
            f"{origin}: the client certificate cannot be loaded: no temporary folder is writable; set TMPDIR"
        ) from error
