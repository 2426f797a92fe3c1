"""Ignores the `Upgrade` header of requests, as a server may do (RFC 9110, 7.8).

`curl --http2` sends `Connection: Upgrade` and `Upgrade: h2c` with a request of HTTP/1.1, body included. httptools ends
such a request with its head, and takes the body for the next request. So this parser reads the head again, without
`Upgrade`.
"""

from array import array

import httptools
from httptools import HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class UpgradeIgnoringParser(httptools.HttpRequestParser):
    """Calls a protocol's methods, which must do nothing at the end of a head or request while `is_to_read_again`."""

    def __init__(self, protocol: HttpToolsProtocol) -> None:
        self._protocol = protocol
        self._begin()

    @property
    def is_to_read_again(self) -> bool:
        """Whether the current request asks for another protocol. CONNECT is excluded: it does so by itself."""
        return self.should_upgrade() and self.get_method() != b"CONNECT"

    def feed_data(self, data: "bytes | bytearray | memoryview | array[int]") -> None:
        """Parse a chunk; after CONNECT, the rest of it is not HTTP. Raises HttpParserError."""
        while True:
            try:
                super().feed_data(data)
            except HttpParserUpgrade as upgrade:
                if not self.is_to_read_again:
                    return
                # A view, so that the rest of the chunk is not copied for each of many requests.
                data = memoryview(data)[upgrade.args[0] :]
                head = self._head_without_upgrade()
                self._begin()
                super().feed_data(head)
            else:
                return

    def _begin(self) -> None:
        super().__init__(self._protocol)
        # Like uvicorn, ignore what follows the last request of a connection.
        self.set_dangerous_leniencies(lenient_data_after_close=True)

    def _head_without_upgrade(self) -> bytes:
        target = [self.get_method(), self._protocol.url, b"HTTP/" + self.get_http_version().encode()]
        fields = [b"%b: %b" % field for field in self._protocol.headers if field[0] != b"upgrade"]
        return b"\r\n".join([b" ".join(target), *fields, b"", b""])
