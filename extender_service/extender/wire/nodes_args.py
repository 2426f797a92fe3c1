"""Decodes calls about nodes. kube-scheduler sends thousands of names in each, mostly the same ones in the same order,
and the same pod to filter and prioritize."""

import msgspec

from extender_service.caches import LastFew
from extender_service.extender.wire.decoding import ArgsDecoder
from extender_service.extender.wire.request_limits import (
    LARGE_BODY_BYTES,
    MOST_NAMES_BYTES,
    MOST_NODES,
    MOST_OBJECT_BYTES,
    ORDINARY_BYTES,
    require_few_values,
    require_moderate_argument,
    require_moderate_pod,
)
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.types.core import Pod
from extender_service.kube.types.extender_api import Args, ExtenderArgs, NodeList

# Lists of names to keep: several kube-schedulers send different lists, and some pods are asked about fewer nodes.
_MOST_LISTS = 4
_MOST_LIST_BYTES = 12 << 20
# Bytes that a name in a list takes besides its characters.
_BYTES_A_NAME = 60
_MOST_PODS = 4
# Bytes that decoded objects take per character of JSON.
_BYTES_A_CHARACTER = 24

# What decoding raises for input that is wrong, or is not written as Go writes it.
_NOT_AS_GO_WRITES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _UnreadNames(Args):
    """ExtenderArgs whose names are not decoded yet."""

    pod: Pod | None = None
    nodes: NodeList | None = None
    node_names: msgspec.Raw = msgspec.Raw()


class _Unread(Args):
    """ExtenderArgs whose names and pod are not decoded yet."""

    pod: msgspec.Raw = msgspec.Raw()
    nodes: NodeList | None = None
    node_names: msgspec.Raw = msgspec.Raw()


class ExtenderArgsDecoder:
    """Decodes ExtenderArgs. Names and pods of the last few calls are not decoded again: the result has the same
    objects."""

    def __init__(self) -> None:
        self._careful = ArgsDecoder(ExtenderArgs)
        self._unread_names = msgspec.json.Decoder(_UnreadNames)
        self._unread = msgspec.json.Decoder(_Unread)
        self._pod = Decoder(Pod)
        self._names = msgspec.json.Decoder(list[str])
        # The key is the end of the body, as Go writes names last.
        self._recent: LastFew[bytes, list[str]] = LastFew(
            "names of nodes", most_entries=_MOST_LISTS, most_entry_bytes=_MOST_LIST_BYTES
        )
        # The key is the rest of such a body.
        self._recent_pods: LastFew[bytes, Pod] = LastFew(
            "pods of calls", most_entries=_MOST_PODS, most_entry_bytes=_BYTES_A_CHARACTER * ORDINARY_BYTES
        )

    def decode(self, body: bytes | bytearray) -> ExtenderArgs:
        """Decode a request body. Raises DecodeError that names the field."""
        rest, names = self._without_recent_names(body)
        if names is not None:
            for same, pod, _ in self._recent_pods.entries:
                if rest == same:
                    return ExtenderArgs(pod, None, names)
        try:
            args = self._unread_names.decode(rest) if len(rest) <= LARGE_BODY_BYTES else self._decode_large(rest)
            raw_names = bytes(args.node_names)
            if args.pod is not None and names is not None:
                if args.nodes is None:
                    self._recent_pods.keep(bytes(rest), args.pod, _BYTES_A_CHARACTER * len(rest))
                return _moderate(ExtenderArgs(args.pod, args.nodes, names), len(rest))
            if args.pod is not None and raw_names.startswith(b"["):
                names = self._read(raw_names, rest)
                return _moderate(ExtenderArgs(args.pod, args.nodes, names), len(rest) - len(raw_names))
            if args.pod is not None and args.nodes is not None and raw_names in (b"", b"null"):
                return _moderate(ExtenderArgs(args.pod, args.nodes), len(rest))
        except _NOT_AS_GO_WRITES:
            pass  # the careful decoder handles other spellings, and reports errors
        return _moderate(self._careful.decode(body), len(body))

    def _without_recent_names(self, body: bytes | bytearray) -> tuple[bytes | bytearray, list[str] | None]:
        """Return the body without its names, and the names, if it ends with those of a recent call; else the whole
        body and None."""
        for end, names, _ in self._recent.entries:
            if body.endswith(end):
                return body[: -len(end)] + b"}", names
        return body, None

    def _decode_large(self, body: bytes | bytearray) -> _UnreadNames:
        """Decode the pod only if it is not too large."""
        require_few_values(body)
        args = self._unread.decode(body)
        require_moderate_argument("Pod", args.pod, MOST_OBJECT_BYTES)
        require_moderate_argument("NodeNames", args.node_names, MOST_NAMES_BYTES)
        if bytes(args.pod) in (b"", b"null"):
            return _UnreadNames(None, args.nodes, args.node_names)
        try:
            return _UnreadNames(self._pod.decode(args.pod), args.nodes, args.node_names)
        except DecodeError as error:
            raise DecodeError(f"Pod: {error}") from error

    def _read(self, raw: bytes, body: bytes | bytearray) -> list[str]:
        names = self._names.decode(raw)
        end = b',"NodeNames":%b}' % raw
        if len(names) <= MOST_NODES and body.endswith(end):
            characters = len(end) * (2 if end.isascii() else 5)
            self._recent.keep(end, names, characters + _BYTES_A_NAME * len(names))
        return names


def _moderate(args: ExtenderArgs, size: int) -> ExtenderArgs:
    """Return the arguments; names that were read already count nothing in their `size`. Raises DecodeError."""
    if args.node_names is not None and len(args.node_names) > MOST_NODES:
        raise DecodeError(f"NodeNames has {len(args.node_names)} items, of which {MOST_NODES} are the most")
    if args.pod is not None and size > ORDINARY_BYTES:
        require_moderate_pod(args.pod)
    return args
