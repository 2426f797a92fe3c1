import socket

import pytest

from extender_service.command.listening_socket import listen
from extender_service.command.start_error import StartError


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "0:0::0"])
@pytest.mark.parametrize("caller", ["127.0.0.1", "::1"])
def test_every_address_is_one_of_both_ip_families(address: str, caller: str) -> None:
    with listen(socket.create_server, address, 0, "--port") as listener:
        socket.create_connection((caller, listener.getsockname()[1])).close()


@pytest.mark.parametrize(("address", "other"), [("127.0.0.1", "::1"), ("::1", "127.0.0.1"), ("localhost", "::1")])
def test_an_address_keeps_to_its_family(address: str, other: str) -> None:
    with listen(socket.create_server, address, 0, "--port") as listener:
        socket.create_connection((address, listener.getsockname()[1])).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((other, listener.getsockname()[1]))


def test_a_machine_without_ipv6_listens_on_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with listen(socket.create_server, "0.0.0.0", 0, "--port") as listener:
        assert listener.family == socket.AF_INET
        socket.create_connection(("127.0.0.1", listener.getsockname()[1])).close()


def test_programs_that_let_others_share_their_port_listen_side_by_side() -> None:
    with listen(socket.create_server, "127.0.0.1", 0, "--secure-port", shares_port=True) as first:
        port = first.getsockname()[1]
        with listen(socket.create_server, "127.0.0.1", port, "--secure-port", shares_port=True) as second:
            assert second.getsockname()[1] == port
        with pytest.raises(StartError) as raised:
            listen(socket.create_server, "127.0.0.1", port, "--secure-port", port_0="for none")
    advice = "give another port, or 0 for none"
    assert str(raised.value) == f"--secure-port: 127.0.0.1:{port} is in use by another program; {advice}"
