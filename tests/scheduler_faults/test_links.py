"""A link that is cut: bytes vanish, no side is told, and what was open then stays silent for ever."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.scheduler_faults.links import Link, Links

SECONDS = 0.2


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that sends back what it gets."""
    connections = list[socket.socket]()

    def echo(connection: socket.socket) -> None:
        while data := connection.recv(100):
            connection.sendall(data)

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=echo, args=[connection], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in connections:
        connection.close()


@pytest.fixture
def link(echo_port: int) -> Iterator[Link]:
    with Links(echo_port) as links:
        yield links.open()


def connected(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(link.url.rpartition(":")[2])), timeout=5.0)


def answer(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(100)


def is_silent(client: socket.socket) -> bool:
    client.sendall(b"lost")
    client.settimeout(SECONDS)
    try:
        client.recv(100)
    except TimeoutError:
        return True
    return False


def test_bytes_pass_until_the_link_is_cut(link: Link) -> None:
    with connected(link) as client, connected(link) as later:
        assert answer(client, b"one") == b"one"
        link.cut()
        assert is_silent(client)
        with connected(link) as during:
            assert is_silent(during)
            link.mend()
            assert all(map(is_silent, (client, later, during)))
            with connected(link) as after:
                assert answer(after, b"two") == b"two"
