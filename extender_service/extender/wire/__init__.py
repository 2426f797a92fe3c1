"""The wire format of the extender API: decoding and encoding, limits of requests, the description."""
