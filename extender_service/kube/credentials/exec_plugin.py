"""Credentials from an exec plugin: a program that prints an ExecCredential (client.authentication.k8s.io).

The protocol is that of client-go (plugin/pkg/client/auth/exec): the environment variable KUBERNETES_EXEC_INFO holds the
request, and the plugin prints the answer to standard output. A service has no terminal, so a plugin never gets standard
input.
"""

import asyncio
import base64
import os
from datetime import datetime
from typing import Annotated, Any

import msgspec

from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.header_values import require_header_value
from extender_service.kube.credentials.kubeconfig import ExecConfig, KubeconfigCluster
from extender_service.kube.parsing.decoder import DecodeError, Decoder

_V1 = "client.authentication.k8s.io/v1"
_V1BETA1 = "client.authentication.k8s.io/v1beta1"
# client-go waits for ever, without a log line. A time-out reports which plugin hangs.
_TIMEOUT_SECONDS = 60.0


class ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    """ExecCredentialStatus: a token, a certificate with its key (PEM), or both, and their time of expiry."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    status: ExecStatus | None = None


_decode = Decoder(_ExecCredential).decode


class ExecPlugin:
    """A user's exec plugin. The constructor raises CredentialsError for a configuration that cannot work."""

    def __init__(self, config: ExecConfig, cluster: KubeconfigCluster, ca_pem: bytes, origin: str) -> None:
        self._config = config
        self._origin = f"{origin}: exec plugin {config.command}"
        if not config.command:
            raise CredentialsError(f"{origin}: exec: command must be set")
        if config.api_version not in (_V1, _V1BETA1):
            raise CredentialsError(
                f'{self._origin}: apiVersion "{config.api_version}" is not supported; use {_V1} or {_V1BETA1}'
            )
        mode = config.interactive_mode or ("IfAvailable" if config.api_version == _V1BETA1 else "not set")
        if mode not in ("Never", "IfAvailable"):
            raise CredentialsError(
                f"{self._origin}: interactiveMode is {mode}, but a service has no terminal; use Never or IfAvailable"
            )
        self._request = msgspec.json.encode(
            {
                "kind": "ExecCredential",
                "apiVersion": config.api_version,
                "spec": {"interactive": False}
                | ({"cluster": _cluster_info(cluster, ca_pem)} if config.provide_cluster_info else {}),
            }
        ).decode()

    async def run(self) -> ExecStatus:
        """Run the plugin without blocking the event loop, for 60 s at most. Raises CredentialsError."""
        return self._read(await self._output())

    async def _output(self) -> bytes:
        environment = os.environ | {variable.name: variable.value for variable in self._config.env}
        environment["KUBERNETES_EXEC_INFO"] = self._request
        try:
            process = await asyncio.create_subprocess_exec(
                self._config.command,
                *self._config.args,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except FileNotFoundError as error:
            hint = " ".join(self._config.install_hint.split())
            raise CredentialsError(f"{self._origin}: not found{'; ' + hint if hint else ''}") from error
        except OSError as error:
            raise CredentialsError(f"{self._origin}: cannot be run: {error.strerror}") from error
        except ValueError as error:
            raise CredentialsError(
                f"{self._origin}: cannot be run: {error}; command, args and env must have no NUL character, and names "
                "in env no equals sign"
            ) from error
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                output, complaints = await process.communicate()
        except TimeoutError as error:
            raise CredentialsError(f"{self._origin}: gave no answer in {_TIMEOUT_SECONDS:.0f} s") from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            last_words = (complaints.decode(errors="replace").strip().splitlines() or [""])[-1][:200]
            raise CredentialsError(
                f"{self._origin}: failed with exit code {process.returncode}{': ' + last_words if last_words else ''}"
            )
        return output

    def _read(self, output: bytes) -> ExecStatus:
        try:
            answer = _decode(output)
        except DecodeError as error:
            raise CredentialsError(f"{self._origin}: its output is not an ExecCredential: {error}") from error
        if answer.api_version != self._config.api_version:
            raise CredentialsError(
                f'{self._origin}: answered with apiVersion "{answer.api_version}", not "{self._config.api_version}"'
            )
        status = answer.status or ExecStatus()
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise CredentialsError(f"{self._origin}: answered with a certificate or a key, but not with both")
        if not status.token and not status.client_certificate_data:
            raise CredentialsError(f"{self._origin}: answered with neither a token nor a client certificate")
        require_header_value(status.token, f"{self._origin}: the token in its answer")
        return status


def _cluster_info(cluster: KubeconfigCluster, ca_pem: bytes) -> dict[str, Any]:
    """Return the cluster as clientauthentication.Cluster, without empty fields."""
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(ca_pem).decode(),
        "proxy-url": cluster.proxy_url,
        "config": cluster.exec_config,
    }
    return {key: value for key, value in info.items() if value or key == "server"}
