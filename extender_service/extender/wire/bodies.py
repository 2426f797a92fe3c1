"""The bodies of requests and answers."""

# One that came in pieces is put together in place.
Body = bytes | bytearray

# The body of an answer, in pieces that are sent one after the other.
Answer = tuple[bytes | memoryview, ...]
