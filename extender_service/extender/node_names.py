"""Node names as kube-scheduler sends them: thousands in each call, and mostly the same ones in the same order."""

from collections import deque

import msgspec

from extender_service.extender.wire import Args, ArgsDecoder, ExtenderArgs, NodeList
from extender_service.kube.objects import Pod

# Several kube-schedulers, or a pod that some nodes are not asked for, make for more than one list.
_RECENT = 4


class _UnreadNames(Args):
    """ExtenderArgs whose names are as they came."""

    pod: Pod | None = None
    nodes: NodeList | None = None
    node_names: msgspec.Raw = msgspec.Raw()


class ExtenderArgsDecoder:
    """Decodes ExtenderArgs; a list of names that came before is not read again, and is the same list object then."""

    def __init__(self) -> None:
        self._careful = ArgsDecoder(ExtenderArgs)
        self._unread = msgspec.json.Decoder(_UnreadNames)
        self._names = msgspec.json.Decoder(list[str])
        self._recent: deque[tuple[bytes, list[str]]] = deque(maxlen=_RECENT)

    def decode(self, body: bytes) -> ExtenderArgs:
        """Decode a request body. Raises DecodeError that names the field."""
        try:
            args = self._unread.decode(body)
            names = bytes(args.node_names)
            if args.pod is not None and names.startswith(b"["):
                return ExtenderArgs(args.pod, args.nodes, self._read(names))
            if args.pod is not None and args.nodes is not None and names in (b"", b"null"):
                return ExtenderArgs(args.pod, args.nodes)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # what is wrong, or written in another way, the careful decoder finds out
        return self._careful.decode(body)

    def _read(self, raw: bytes) -> list[str]:
        for seen, names in self._recent:
            if seen == raw:
                return names
        names = self._names.decode(raw)
        self._recent.append((raw, names))
        return names
