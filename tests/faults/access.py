"""Who the service is for the proxy: by a token and a client certificate, both in files that can be replaced."""

import secrets
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.support.faulty_proxy import Exchange
from tests.e2e.support.programs.control_plane import ControlPlane


class RotatingAccess:
    """Admits who shows the token and the certificate that are valid now, at each request anew."""

    def __init__(self, control_plane: ControlPlane, directory: Path) -> None:
        self._authority = control_plane.authority
        self._token_file = directory / "service.token"
        self._certificate_file = directory / "service.crt"
        self._key_file = directory / "service.key"
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(
            control_plane.directory / "apiserver.crt", control_plane.directory / "apiserver.key"
        )
        self._authority.configure_trust(self.server)
        self.server.verify_mode = ssl.CERT_OPTIONAL
        self.cluster: Mapping[str, Any] = {"certificate-authority": str(control_plane.directory / "ca.crt")}
        self.user: Mapping[str, Any] = {
            "tokenFile": str(self._token_file),
            "client-certificate": str(self._certificate_file),
            "client-key": str(self._key_file),
        }
        self.change_token()
        self.write_token()
        self.change_certificate()
        self.write_key()
        self.write_certificate()

    def admits(self, exchange: Exchange) -> bool:
        """Whether both are valid."""
        subject = dict(pair for part in exchange.certificate.get("subject", ()) for pair in part)
        return exchange.authorization == f"Bearer {self._token}" and subject.get("commonName") == self._name

    def change_token(self) -> None:
        """From now on another token is valid; `write_token` gives it to the service."""
        self._token = secrets.token_urlsafe()

    def write_token(self) -> None:
        self._token_file.write_text(self._token)

    def change_certificate(self) -> None:
        """From now on another certificate is valid; `write_key` and `write_certificate` give it to the service."""
        self._name = f"service-{secrets.token_hex(4)}"
        self._certificate = self._authority.issue_cert("service@users.test", common_name=self._name)

    def write_key(self) -> None:
        self._certificate.private_key_pem.write_to_path(self._key_file)

    def write_certificate(self) -> None:
        self._certificate.cert_chain_pems[0].write_to_path(self._certificate_file)
