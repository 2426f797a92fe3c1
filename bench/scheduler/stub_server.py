"""An API server that costs next to nothing: bench/peers/stubapi -live, over TLS, in HTTP/1.1 and HTTP/2."""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import msgspec
import trustme

from bench.programs import Peers, Server
from bench.scheduler.api_servers import BoundPod, Counts, Site
from bench.scheduler.scenes import Scene
from tests.e2e.support import kubeconfigs
from tests.e2e.support.api import API
from tests.e2e.support.objects import Object

_LOAD_SECONDS = 120.0


class StubApiServer:
    """A running stub. It counts bindings and events, and notes when they were."""

    def __init__(self, server: Server, directory: Path, authority: trustme.CA) -> None:
        self._server = server
        user = kubeconfigs.token_user("any")
        self.kubeconfig = kubeconfigs.write(directory / "stub.kubeconfig", server.url, authority, user)
        certificate = authority.cert_pem.bytes().decode()
        self.api = API(server.url, certificate, "any")
        trust = ssl.create_default_context(cadata=certificate)
        self._http = httpx.Client(base_url=server.url, verify=trust, timeout=_LOAD_SECONDS, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
        self.api.__exit__(None, None, None)

    @property
    def processes(self) -> Mapping[str, int]:
        """The process id of the stub."""
        return {"API server": self._server.pid}

    def create(self, *objects: Object) -> None:
        """Create objects of any kind with one request."""
        self._http.post("/stub/objects", content=msgspec.json.encode(objects)).raise_for_status()

    def delete(self, *objects: Object) -> None:
        """Delete objects with one request."""
        body = msgspec.json.encode(objects)
        self._http.request("DELETE", "/stub/objects", content=body).raise_for_status()

    def counts(self) -> Counts:
        """Return what has happened so far."""
        return msgspec.json.decode(self._http.get("/stub/measures").raise_for_status().content, type=Counts)

    def bound_pods(self) -> Sequence[BoundPod]:
        """Return the pods that have been bound so far."""
        return msgspec.json.decode(self._http.get("/stub/bound").raise_for_status().content, type=list[BoundPod])


@contextmanager
def stub_site(peers: Peers, directory: Path, scene: Scene) -> Iterator[Site]:
    """Run a new stub with all objects of the scene for each measurement."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(directory / "stub.key")
    certificate.cert_chain_pems[0].write_to_path(directory / "stub.crt")
    yield partial(_stub, peers, directory, authority, scene)


@contextmanager
def _stub(peers: Peers, directory: Path, authority: trustme.CA, scene: Scene) -> Iterator[StubApiServer]:
    with peers.live_api(directory / "stub.crt", directory / "stub.key") as server:
        stub = StubApiServer(server, directory, authority)
        try:
            stub.create(*scene.cluster)
            stub.create(*scene.pods)
            yield stub
        finally:
            stub.close()
