"""How to reach an extender: its URL, TLS and proxy, from the configuration (NewHTTPExtender)."""

import base64

from extender_service.config.types import Extender, ExtenderTLSConfig
from extender_service.kube.connection.posts import Posts, is_url
from extender_service.kube.credentials.client_tls import ServerTrust, client_context
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.files import read_file
from extender_service.kube.credentials.identity import CurrentIdentity, KubeconfigUser
from extender_service.kube.credentials.kubeconfig import User
from extender_service.kube.credentials.lookup import Credentials
from extender_service.kube.credentials.proxy import environment_proxy
from extender_service.kube.credentials.server_trust import CurrentTrust
from extender_service.seams import WallClock


def posts_to(extender: Extender, where: str, wall_clock: WallClock) -> Posts:
    """Return what sends requests to an extender. `where` names its part of the configuration.

    Files with a client certificate and its key are read again as they change, as in kube-scheduler. The authority stays
    as it was at the start, as it does there. Raises CredentialsError.
    """
    server = extender.url_prefix.rstrip("/")
    if not is_url(server):
        raise CredentialsError(f"{where}.urlPrefix: must be a URL that starts with http:// or https://")
    tls = extender.tls_config or ExtenderTLSConfig()
    where = f"{where}.tlsConfig"
    authority = _pem(tls.ca_data, tls.ca_file, f"{where}.caFile")
    certificate = _pem(tls.cert_data, tls.cert_file, f"{where}.certFile")
    key = _pem(tls.key_data, tls.key_file, f"{where}.keyFile")
    # As in kube-scheduler: enableHTTPS without an authority trusts any certificate.
    insecure = tls.insecure or (extender.enable_https and not authority)
    if insecure and authority:
        raise CredentialsError(f"{where}: set caFile (or caData) or insecure, not both")
    if bool(certificate) != bool(key):
        raise CredentialsError(f"{where}: set both, certFile and keyFile (or their data), or neither")
    trust = ServerTrust(authority, tls.server_name, insecure, where)
    if server.startswith("https:"):
        client_context(trust, certificate, key, where)  # reports what is unusable at the start
    user = User(
        client_certificate=tls.cert_file,
        client_certificate_data=base64.b64decode(tls.cert_data),
        client_key=tls.key_file,
        client_key_data=base64.b64decode(tls.key_data),
    )
    identity = CurrentIdentity(KubeconfigUser(user, where, wall_clock, ("certFile", "keyFile")), wall_clock)
    trusted = CurrentTrust(trust, now=wall_clock)
    credentials = Credentials(server, environment_proxy(server), (), identity, trusted, where)
    # As in Go's http.Client, a negative time is no limit.
    timeout_seconds = extender.http_timeout.seconds if extender.http_timeout > 0 else None
    return Posts(credentials, timeout_seconds)


def _pem(data: str, file: str, what: str) -> bytes:
    return base64.b64decode(data) if data else read_file(file, what)
