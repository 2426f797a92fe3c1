from pathlib import Path

import pytest
import trustme

from extender_service.kube.credentials.client_tls import ServerTrust
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.credentials.server_trust import CurrentTrust
from tests.support.clock import Clock
from tests.support.servers.kubeconfig_files import write_kubeconfig

OLD, NEW = (trustme.CA().cert_pem.bytes() for _ in range(2))


class World:
    """A file with an authority."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ca.crt"
        self.file.write_bytes(OLD)
        self.clock = Clock()
        self.trust = CurrentTrust(ServerTrust(OLD, "api.example", origin="cluster c"), str(self.file), self.clock)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_file_is_read_again_after_a_minute(world: World) -> None:
    old = world.trust.current()
    world.file.write_bytes(NEW)
    world.clock.pass_seconds(59)
    assert world.trust.current() is old
    world.clock.pass_seconds(1)
    new = world.trust.current()
    assert new == ServerTrust(NEW, "api.example", origin="cluster c")
    world.clock.pass_seconds(60)
    assert world.trust.current() is new


def test_in_doubt_the_file_is_read_again_soon_and_not_all_the_time(world: World) -> None:
    world.file.write_bytes(NEW)
    world.clock.pass_seconds(0.5)
    world.trust.doubt()
    assert world.trust.current().ca_pem == OLD
    world.clock.pass_seconds(0.5)
    assert world.trust.current().ca_pem == NEW
    world.file.write_bytes(OLD)
    world.trust.doubt()
    assert world.trust.current().ca_pem == NEW
    world.clock.pass_seconds(1)
    assert world.trust.current().ca_pem == OLD


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "No such file or directory"),
        (b"", "the file is empty"),
        (b"\n", "is not a PEM certificate"),
        (NEW[:200], "is not a PEM certificate"),
        (NEW + OLD[:200], "is not a PEM certificate"),
    ],
    ids=["gone", "empty", "without a certificate", "cut", "cut in the second"],
)
def test_a_file_that_cannot_be_used_leaves_the_last_authorities(
    world: World, caplog: pytest.LogCaptureFixture, content: bytes | None, complaint: str
) -> None:
    old = world.trust.current()
    if content is None:
        world.file.unlink()
    else:
        world.file.write_bytes(content)
    world.clock.pass_seconds(60)
    for _ in range(3):
        assert world.trust.current() is old
        world.clock.pass_seconds(1)
    [message] = caplog.messages
    assert message.startswith("cluster c: certificate-authority")
    assert complaint in message
    world.file.write_bytes(NEW)
    assert world.trust.current().ca_pem == NEW


def test_a_clock_that_is_set_back_holds_up_nothing(world: World) -> None:
    world.file.write_bytes(NEW)
    world.clock.pass_seconds(-3600)
    assert world.trust.current().ca_pem == NEW


@pytest.mark.parametrize(
    ("cluster", "follows"),
    [
        ({"certificate-authority": "ca.crt"}, True),
        ({"certificate-authority": "ca.crt", "server": "http://c"}, False),
        ({"certificate-authority": "ca.crt", "certificate-authority-data": OLD}, False),
    ],
    ids=["a file", "without TLS", "data win"],
)
def test_a_file_is_followed_where_it_counts(
    world: World, tmp_path: Path, cluster: dict[str, object], follows: bool
) -> None:
    path = write_kubeconfig(tmp_path / "config", cluster={"server": "https://c"} | cluster)
    trust = load_credentials(path, wall_clock=world.clock).trust
    assert trust.current().ca_pem == OLD
    world.file.write_bytes(NEW)
    world.clock.pass_seconds(60)
    assert trust.current().ca_pem == (NEW if follows else OLD)
