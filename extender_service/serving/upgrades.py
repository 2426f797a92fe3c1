"""Reads requests that ask for another protocol as if they did not, which a server may do (RFC 9110, 7.8).

`curl --http2` sends `Connection: Upgrade` and `Upgrade: h2c` with a request of HTTP/1.1, body and all. httptools ends
such a request with its head, and takes the body for the next request. So it reads that head again, without `Upgrade`.
"""

from array import array

import httptools
from httptools import HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class UpgradeIgnoringParser(httptools.HttpRequestParser):
    """Calls back a protocol, which does nothing at the end of a head or a request while `is_to_read_again`."""

    def __init__(self, protocol: HttpToolsProtocol) -> None:
        self._protocol = protocol
        self._begin()

    @property
    def is_to_read_again(self) -> bool:
        """Whether the request at hand asks for another protocol. CONNECT does so by itself, and has no body."""
        return self.should_upgrade() and self.get_method() != b"CONNECT"

    def feed_data(self, data: "bytes | bytearray | memoryview | array[int]") -> None:
        """Read on; after CONNECT, what more is in the chunk is no HTTP. Raises HttpParserError."""
        while True:
            try:
                super().feed_data(data)
            except HttpParserUpgrade as upgrade:
                if not self.is_to_read_again:
                    return
                # A view: a chunk may have many requests, and what follows each is not copied.
                data = memoryview(data)[upgrade.args[0] :]
                head = self._head_without_upgrade()
                self._begin()
                super().feed_data(head)
            else:
                return

    def _begin(self) -> None:
        super().__init__(self._protocol)
        # As uvicorn has it: what comes after the last request of a connection is ignored.
        self.set_dangerous_leniencies(lenient_data_after_close=True)

    def _head_without_upgrade(self) -> bytes:
        target = [self.get_method(), self._protocol.url, b"HTTP/" + self.get_http_version().encode()]
        fields = [b"%b: %b" % field for field in self._protocol.headers if field[0] != b"upgrade"]
        return b"\r\n".join([b" ".join(target), *fields, b"", b""])
