"""Reads the answers that come over one HTTP/1.1 connection. llhttp (httptools) reads the format."""

from typing import Final

import httptools

# What may come without a part of a body: the heads of interim answers (1xx) and the answer's own, or what is between
# chunks or after them. The API server sends 1 KB.
_MOST_HEAD_BYTES: Final = 64 << 10
_LARGE_HEAD: Final = f"the head of the answer is larger than {_MOST_HEAD_BYTES >> 10} KiB"


class AnswerReader:
    """Takes in one answer at a time, after `expect`, as its bytes come.

    `status` and `headers` (names in lower case, no trailers) are those of the last answer that `has_head`. `is_last`:
    no other request can be sent after this answer. The answer is the same however its bytes are cut into pieces.
    """

    def __init__(self) -> None:
        self.status = 0
        self.has_head = False
        self.is_whole = True
        self.is_last = False
        self.unread_bytes = 0
        self._unread: list[bytes] = []
        self._flaw: str | None = None
        self._is_interim = False
        self._head_bytes = 0  # that have come since the last part of a body
        self._fields: dict[bytes, bytes] = {}  # headers and trailers, by name as sent
        self._head: dict[bytes, bytes] = {}
        # The parser calls this for each, and this way it executes no Python.
        self.on_header = self._fields.__setitem__
        self._parser: httptools.HttpResponseParser | None = None

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The headers with their names in lower case. Most answers are such that none is read."""
        # The parser leaves the white space after a value.
        return {name.lower(): value.strip() for name, value in self._head.items()}

    @property
    def has_begun(self) -> bool:
        """Whether a part of the answer has come."""
        return self.has_head or self._head_bytes > 0

    def expect(self) -> None:
        """Begin with the next answer."""
        self.has_head = self.is_whole = self._is_interim = False
        self._head_bytes = 0
        self._fields.clear()
        if self._unread:
            self.take()  # what was not read of the last one
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> str | None:
        """Take in what comes next. Returns why the answer cannot be read, None if it can so far; feed no more then."""
        assert self._parser is not None, "nothing is expected"
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.is_last = True
            if not self.is_whole:  # what comes after the answer makes no difference to it
                is_upgrade = isinstance(error, httptools.HttpParserUpgrade)
                self._flaw = self._flaw or f"what came is no HTTP: {'another protocol' if is_upgrade else error}"
        if self._head_bytes > _MOST_HEAD_BYTES and not self.is_whole:
            self._flaw = self._flaw or _LARGE_HEAD
        return self._flaw

    def end(self) -> None:
        """End an answer that has no length, as its connection has ended."""
        has_length = b"content-length" in self.headers or b"transfer-encoding" in self.headers
        if self.has_head and not has_length:
            self.is_whole = True

    def take(self) -> bytes:
        """Return what has come of the body since the last call."""
        unread = self._unread
        taken = unread[0] if len(unread) == 1 else b"".join(unread)
        unread.clear()
        self.unread_bytes = 0
        return taken

    def close(self) -> None:
        """Feed no more from now on. Without this, reader and parser would wait for the garbage collector."""
        self._parser = None

    # The parser calls these:

    def on_message_begin(self) -> None:
        """Take note of a second answer, which nothing has asked for."""
        if self.is_whole:
            self.is_last = True

    def on_headers_complete(self) -> None:
        """Begin the body, except of an interim answer (1xx)."""
        if self.is_whole:
            return
        assert self._parser is not None
        fields = self._fields
        self._head = fields.copy()
        fields.clear()
        status: int = self._parser.get_status_code()
        self._is_interim = status < 200
        if self._is_interim:
            return
        # Without a count of the bytes that are of the body: so many are rarely read in one piece.
        if self._head_bytes > _MOST_HEAD_BYTES and _size(self.headers) > _MOST_HEAD_BYTES:
            self._flaw = _LARGE_HEAD
            return
        self._head_bytes = 0
        if b"content-encoding" in map(bytes.lower, self._head):
            encoding = self.headers[b"content-encoding"]
            if encoding and encoding.lower() != b"identity":
                self._flaw = f"the answer is encoded, which was not asked for: {encoding.decode('latin-1')}"
                return
        self.status = status
        self.has_head = True

    def on_body(self, data: bytes) -> None:
        """Keep a part of the body until it is taken."""
        self._head_bytes = 0
        if not self.is_whole:
            self._unread.append(data)
            self.unread_bytes += len(data)

    def on_message_complete(self) -> None:
        """End the answer, unless it was an interim one."""
        if self.is_whole or self._is_interim:
            return
        assert self._parser is not None
        self.is_whole = True
        if not self._parser.should_keep_alive():
            self.is_last = True


def _size(headers: dict[bytes, bytes]) -> int:
    return sum(map(len, headers)) + sum(map(len, headers.values()))
