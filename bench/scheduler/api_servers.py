"""The API servers that schedulers are measured on, and what each knows of bindings and events."""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import httpx
import msgspec
import trustme

from bench.programs import Peers, Server
from bench.scheduler.scenes import Scene
from tests.e2e.support import kubeconfigs
from tests.e2e.support.api import API

_LOAD_SECONDS = 120.0


class Counts(msgspec.Struct, frozen=True):
    """What has been bound and written so far. Times are in seconds of one clock, 0 if there was none yet."""

    bound: int
    first_binding: float
    last_binding: float
    events: int  # about bindings
    last_event: float
    other_events: int


class ApiServer(Protocol):
    """An API server with the cluster of a scene."""

    kubeconfig: Path
    api: API

    @property
    def processes(self) -> Mapping[str, int]:
        """The process ids of its programs, by name."""

    def counts(self) -> Counts:
        """Return what has happened since the scene was set."""

    def waits(self) -> Sequence[float]:
        """Return for each bound pod the milliseconds from its creation, or from the first binding if that is later."""


class StubApiServer:
    """bench/peers/stubapi -live: over TLS, in HTTP/1.1 and HTTP/2."""

    def __init__(self, server: Server, directory: Path, authority: trustme.CA) -> None:
        self._server = server
        self.kubeconfig = kubeconfigs.write(
            directory / "stub.kubeconfig", server.url, authority, kubeconfigs.token_user("any")
        )
        certificate = authority.cert_pem.bytes().decode()
        self.api = API(server.url, certificate, "any")
        trust = ssl.create_default_context(cadata=certificate)
        self._http = httpx.Client(base_url=server.url, verify=trust, timeout=_LOAD_SECONDS, trust_env=False)

    @property
    def processes(self) -> Mapping[str, int]:
        """The process id of the stub."""
        return {"API server": self._server.pid}

    def set(self, scene: Scene) -> None:
        """Create all objects of a scene."""
        workload = scene.workload
        for objects in (scene.nodes, workload.running, workload.hopeless, workload.measured):
            self._http.post("/stub/objects", content=msgspec.json.encode(objects)).raise_for_status()

    def counts(self) -> Counts:
        """Return what has happened since the scene was set."""
        return msgspec.json.decode(self._http.get("/stub/measures").raise_for_status().content, type=Counts)

    def waits(self) -> Sequence[float]:
        """Return for each bound pod the milliseconds from its creation, or from the first binding if that is later."""
        return msgspec.json.decode(self._http.get("/stub/waits").raise_for_status().content, type=list[float])


@contextmanager
def stub_with(peers: Peers, directory: Path, scene: Scene) -> Iterator[StubApiServer]:
    """Run a stub with the cluster of a scene."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    key_file, certificate_file = directory / "stub.key", directory / "stub.crt"
    certificate.private_key_pem.write_to_path(key_file)
    certificate.cert_chain_pems[0].write_to_path(certificate_file)
    with peers.live_api(certificate_file, key_file) as server:
        stub = StubApiServer(server, directory, authority)
        stub.set(scene)
        yield stub
