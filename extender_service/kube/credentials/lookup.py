"""Finds the API server's URL and our credentials there.

We wrote this because no library does it. None of lightkube, kr8s, pykube-ng and kubernetes runs exec plugins as
client-go does (v1, cluster information, expiry, client certificates) or supports impersonation. Importing kubernetes
also takes most of the time in which this service must become ready.
"""

import os
import ssl
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from extender_service.kube.credentials.client_tls import ServerTrust, client_context
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.exec_plugin import ExecPlugin
from extender_service.kube.credentials.files import read_file
from extender_service.kube.credentials.header_values import require_header_value
from extender_service.kube.credentials.identity import CurrentIdentity, ExecUser, Identity, KubeconfigUser
from extender_service.kube.credentials.kubeconfig import KubeconfigCluster, Selection, User, load_kubeconfig
from extender_service.kube.credentials.proxy import environment_proxy
from extender_service.kube.credentials.server_trust import CurrentTrust
from extender_service.kube.credentials.urls import without_user
from extender_service.seams import WallClock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Credentials:
    """Access to one API server.

    `server` is its URL without a trailing slash; it may have a user and a password, so texts name `shown_server`.
    `proxy` is the URL of the proxy to it, empty for none. `headers` are the impersonation headers of every request.
    `identity` has the token or client certificate, `trust` the authorities of the server's certificate.
    """

    server: str
    proxy: str
    headers: tuple[tuple[str, str], ...]
    identity: CurrentIdentity
    trust: CurrentTrust
    user_origin: str

    @cached_property
    def shown_server(self) -> str:
        """The server's URL as texts may show it."""
        return without_user(self.server)

    def ssl_context(self, identity: Identity, trust: ServerTrust) -> ssl.SSLContext:
        """Return a TLS context that verifies the server and presents the certificate. Raises CredentialsError."""
        return client_context(trust, identity.certificate_pem, identity.key_pem, self.user_origin)


def load_credentials(
    kubeconfig: Path | None = None,
    master: str = "",
    *,
    like_kubectl: bool = False,
    service_account: Path = SERVICE_ACCOUNT,
    wall_clock: WallClock = time.time,
) -> Credentials:
    """Find the API server and our credentials. Raises CredentialsError.

    Tries in this order: the file `kubeconfig`; the API server at the URL `master`, without credentials; the pod's
    service account; with `like_kubectl` also the user's files, in KUBECONFIG or ~/.kube/config. With both arguments,
    `master` replaces the file's server URL and tls-server-name, as in kube-scheduler.
    """
    return _credentials(_select(kubeconfig, master, service_account, like_kubectl=like_kubectl), wall_clock)


def is_in_cluster(service_account: Path = SERVICE_ACCOUNT) -> bool:
    """Return whether this process runs in a pod with a service account."""
    return _in_cluster(service_account) is not None


def _select(kubeconfig: Path | None, master: str, service_account: Path, *, like_kubectl: bool) -> Selection:
    if kubeconfig:
        selection = load_kubeconfig([kubeconfig], must_exist=True)
        if not master:
            return selection
        cluster = msgspec.structs.replace(selection.cluster, server=master, tls_server_name="")
        return msgspec.structs.replace(selection, cluster=cluster)
    if master:
        return Selection(KubeconfigCluster(server=master), "--master", User(), "--master")
    if in_cluster := _in_cluster(service_account):
        return in_cluster
    if like_kubectl:
        return _of_the_user(service_account)
    raise CredentialsError(
        f"no API server is configured: there is no service account in {service_account}, and KUBECONFIG and"
        " ~/.kube/config do not count; give --kubeconfig FILE or --master URL or, with --config, set its"
        " clientConnection.kubeconfig"
    )


def _of_the_user(service_account: Path) -> Selection:
    paths = dict.fromkeys(Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part)
    if paths:
        return load_kubeconfig(list(paths), must_exist=False)
    default = Path("~/.kube/config").expanduser()
    if default.exists():
        return load_kubeconfig([default], must_exist=True)
    raise CredentialsError(
        f"no API server is configured: there is no service account in {service_account}, KUBECONFIG is not set"
        f" and {default} does not exist; give --kubeconfig FILE"
    )


def _in_cluster(service_account: Path) -> Selection | None:
    """Return a pod's access: the API server from the environment, token and CA from files (client-go: InClusterConfig).

    None outside a pod.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    token, authority = service_account / "token", service_account / "ca.crt"
    if not host or not port or not token.exists():
        return None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    origin = f"service account {service_account}"
    return Selection(
        KubeconfigCluster(server=server, certificate_authority=str(authority)),
        origin,
        User(token_file=str(token)),
        origin,
    )


def _credentials(selection: Selection, wall_clock: WallClock) -> Credentials:
    cluster, user, origin = selection.cluster, selection.user, selection.cluster_origin
    server = _checked_url(cluster.server, ("https", "http"), f"{origin}: server").rstrip("/")
    proxy = cluster.proxy_url or environment_proxy(server)
    if proxy:
        _checked_url(proxy, ("http", "https", "socks5"), f"{origin}: proxy-url")
    authority = cluster.certificate_authority_data or read_file(
        cluster.certificate_authority, f"{origin}: certificate-authority"
    )
    if authority and cluster.insecure_skip_tls_verify:
        raise CredentialsError(f"{origin}: set certificate-authority or insecure-skip-tls-verify, not both")
    if not server.startswith("https:"):
        user = _without_secrets(user)
    trust = ServerTrust(authority, cluster.tls_server_name, cluster.insecure_skip_tls_verify, origin)
    source = _identity_source(user, selection.user_origin, cluster, authority, wall_clock)
    # Report unusable certificates at the start, not with the first request. Those of the system, which take long to
    # load, are as they are.
    known = source.last if isinstance(source, KubeconfigUser) else Identity()
    if trust.ca_pem or trust.server_name or known.certificate_pem:
        client_context(trust, known.certificate_pem, known.key_pem, selection.user_origin)
    may_change = not cluster.certificate_authority_data and not trust.insecure and server.startswith("https:")
    return Credentials(
        server=server,
        proxy=proxy,
        headers=_impersonation(user, selection.user_origin),
        identity=CurrentIdentity(source, wall_clock),
        trust=CurrentTrust(trust, cluster.certificate_authority if may_change else "", wall_clock),
        user_origin=selection.user_origin,
    )


def _checked_url(url: str, schemes: tuple[str, ...], what: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        httpx.URL(url)  # the one that sends requests refuses more: control characters, host names that are none
    except (ValueError, httpx.InvalidURL):
        good = False
    if not good:
        # The text leaves out the URL: that of a proxy may contain a password.
        hint = "" if url.isprintable() else ", without line breaks or control characters"
        starts = " or ".join(f"{scheme}://" for scheme in schemes)
        raise CredentialsError(f"{what} must be a URL that starts with {starts}{hint}")
    return parts._replace(query="", fragment="").geturl()


def _without_secrets(user: User) -> User:
    """Return the user with its impersonation only: like client-go, we send no credentials without TLS."""
    return User(
        impersonate=user.impersonate,
        impersonate_uid=user.impersonate_uid,
        impersonate_groups=user.impersonate_groups,
        impersonate_extra=user.impersonate_extra,
    )


def _identity_source(
    user: User, origin: str, cluster: KubeconfigCluster, authority: bytes, wall_clock: WallClock
) -> KubeconfigUser | ExecUser:
    if user.auth_provider:
        raise CredentialsError(
            f'{origin}: auth-provider "{user.auth_provider.name}" is gone since Kubernetes 1.26; use an exec plugin'
        )
    fields = KubeconfigUser(user, origin, wall_clock)
    if user.exec and fields.last == Identity():
        return ExecUser(ExecPlugin(user.exec, cluster, authority, origin))
    return fields


def _impersonation(user: User, origin: str) -> tuple[tuple[str, str], ...]:
    """Return the impersonation headers, as client-go's impersonating round tripper sets them."""
    if not user.impersonate:
        if user.impersonate_uid or user.impersonate_groups or user.impersonate_extra:
            raise CredentialsError(f"{origin}: as-uid, as-groups and as-user-extra need as, the name of a user")
        return ()
    named = {"as": (user.impersonate,), "as-uid": (user.impersonate_uid,), "as-groups": user.impersonate_groups}
    for field, values in (named | {"as-user-extra": sum(user.impersonate_extra.values(), ())}).items():
        for value in values:
            require_header_value(value, f"{origin}: {field}")
    headers = [("Impersonate-User", user.impersonate)]
    if user.impersonate_uid:
        headers.append(("Impersonate-Uid", user.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups]
    # Header names allow few characters. The API server decodes percent-encoding in this one.
    headers += [
        (f"Impersonate-Extra-{quote(key, safe='')}", value)
        for key, values in user.impersonate_extra.items()
        for value in values
    ]
    return tuple(headers)
