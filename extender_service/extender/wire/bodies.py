"""The bodies of requests and answers."""

# The body of a request. One that arrives in pieces is assembled in a bytearray.
Body = bytes | bytearray

# The body of an answer: pieces, which are sent in this order.
Answer = tuple[bytes | memoryview, ...]
