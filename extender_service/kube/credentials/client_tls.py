"""TLS to the API server: which certificates we trust, which name must be in them, and which one we show."""

import ssl
import tempfile
from dataclasses import dataclass
from typing import Any

from extender_service.kube.credentials.errors import CredentialsError


@dataclass(frozen=True)
class ServerTrust:
    """How to know the API server.

    `ca_pem`: trusted authorities, empty for those of the system. `server_name`: the name its certificate must have,
    empty for the host in its URL. `insecure`: trust anyone. `origin`: for errors, where this is configured.
    """

    ca_pem: bytes = b""
    server_name: str = ""
    insecure: bool = False
    origin: str = ""


class _PinnedNameContext(ssl.SSLContext):
    """Asks for one server name and checks it, whatever host is connected to.

    The HTTP library has an option for that, but forgets it behind a proxy.
    """

    server_name = ""

    def wrap_bio(self, incoming: Any, outgoing: Any, *args: Any, **options: Any) -> ssl.SSLObject:
        server_side = args[0] if args else options.get("server_side", False)
        return super().wrap_bio(incoming, outgoing, server_side, self.server_name)


def client_context(trust: ServerTrust, certificate_pem: bytes, key_pem: bytes, origin: str) -> ssl.SSLContext:
    """Return a context that trusts as told and shows the client certificate, if there is one.

    `origin` says for errors where the certificate comes from. Raises CredentialsError.
    """
    context = (
        _PinnedNameContext(ssl.PROTOCOL_TLS_CLIENT) if trust.server_name else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    if isinstance(context, _PinnedNameContext):
        context.server_name = trust.server_name
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.ca_pem:
        try:
            context.load_verify_locations(cadata=trust.ca_pem.decode())
        except (ssl.SSLError, ValueError) as error:
            raise CredentialsError(f"{trust.origin}: certificate-authority is not a PEM certificate") from error
    else:
        context.load_default_certs()
    if certificate_pem:
        _load_certificate(context, certificate_pem, key_pem, origin)
    return context


def _load_certificate(context: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes, origin: str) -> None:
    # OpenSSL reads certificate and key from files only; this one exists for a moment and is readable by us alone.
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
