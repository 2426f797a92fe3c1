"""The types of the extender API as kube-scheduler sends and reads them (k8s.io/kube-scheduler/extender/v1).

Go sends the field names as they are here and accepts them in any case; so do we.
"""

from contextlib import suppress
from typing import Generic, TypeVar, dataclass_transform

import msgspec
from msgspec import inspect

from extender_service.extender.wire.request_limits import LARGE_BODY_BYTES, require_moderate_arguments
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.types.core import Int64, Object, ObjectMeta, Pod


class NodeList(Object):
    """v1.NodeList; each node stays as it came, so that it can be read only if needed, and sent back unchanged."""

    items: tuple[msgspec.Raw, ...] = ()


class NodeHead(Object):
    """The part of a node that tells whether the cache has the same one."""

    metadata: ObjectMeta = ObjectMeta()


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Args(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """Base of what kube-scheduler sends."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing that may have come under a name in another case."""
        return False


class ExtenderArgs(Args):
    """The pod to be placed, and either the names of the nodes in question or the nodes themselves."""

    pod: Pod | None = None
    nodes: NodeList | None = None
    node_names: list[str] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether there is a pod, and nodes in one of the two forms."""
        return self.pod is not None and (self.node_names is not None or self.nodes is not None)


class MetaPod(Args):
    """A pod by its UID."""

    uid: str = msgspec.field(name="UID", default="")


class MetaVictims(Args):
    """Pods to be deleted from a node, and how many of them a PodDisruptionBudget protects."""

    pods: list[MetaPod] = []
    num_pdb_violations: Int64 = msgspec.field(name="NumPDBViolations", default=0)


class Victims(Args):
    """As MetaVictims, with whole pods."""

    pods: list[Pod] = []
    num_pdb_violations: Int64 = msgspec.field(name="NumPDBViolations", default=0)


class ExtenderPreemptionArgs(Args):
    """The pod that needs room, and by node name the pods that kube-scheduler would delete for it."""

    pod: Pod | None = None
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderBindingArgs(Args):
    """The pod to be bound, and its node."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = msgspec.field(name="PodUID", default="")
    node: str = ""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Result(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """Base of what kube-scheduler reads."""


class ResultNodeList(Object):
    """A v1.NodeList of nodes as they came."""

    items: list[msgspec.Raw]


class ExtenderFilterResult(Result):
    """The nodes that the pod may go to, and why not to the others.

    `nodes` or `node_names` is set, as in the request. Deleting pods could help on `failed_nodes`, not on
    `failed_and_unresolvable_nodes`. With an `error`, nothing else counts.
    """

    nodes: ResultNodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(Result):
    """A node and its score; prioritize answers a list of them."""

    host: str
    score: int


class ExtenderPreemptionResult(Result):
    """The nodes on which deleting these pods makes room."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class ExtenderBindingResult(Result):
    """Empty when the pod is bound."""

    error: str = ""


class ErrorResult(Result):
    """What is wrong with a request; sent with a status other than 200 where a verb's answer has no room for it."""

    error: str


# An event of a pod has room for 1 KB.
_MOST_ERROR_CHARACTERS = 4000

A = TypeVar("A", bound=Args)

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])


class ArgsDecoder(Generic[A]):
    """Decodes the arguments of a verb, with field names in any case; those of the objects within are as in the API."""

    def __init__(self, args_type: type[A]) -> None:
        self._decoder = Decoder(args_type)
        self._type_info = inspect.type_info(args_type)

    def decode(self, body: bytes | bytearray) -> A:
        """Decode a request body. Raises DecodeError that names the field."""
        if len(body) > LARGE_BODY_BYTES:
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # which the decoder tells better
                require_moderate_arguments(body)
        args = self._decoder.decode(body)
        if args.is_complete:
            return args
        try:
            named = _with_go_names(msgspec.Raw(body), self._type_info)
        except UnicodeDecodeError as error:
            raise DecodeError("the body is not UTF-8") from error
        return self._decoder.decode(msgspec.json.encode(named))


def _with_go_names(raw: msgspec.Raw, kind: inspect.Type) -> object:
    """Rename the fields of arguments as Go writes them, and leave out unknown ones."""
    if isinstance(kind, inspect.UnionType):
        kind = kind.types[0]  # the other is None
    try:
        match kind:
            case inspect.StructType() if issubclass(kind.cls, Args):
                fields = {field.encode_name.lower(): field for field in kind.fields}
                known = [
                    (fields[name.lower()], member)
                    for name, member in _members.decode(raw).items()
                    if name.lower() in fields
                ]
                return {field.encode_name: _with_go_names(member, field.type) for field, member in known}
            case inspect.DictType():
                return {key: _with_go_names(member, kind.value_type) for key, member in _members.decode(raw).items()}
            case inspect.ListType():
                return [_with_go_names(element, kind.item_type) for element in _elements.decode(raw)]
    except msgspec.ValidationError:
        pass  # null, which counts as nothing, or the wrong type, which is told with the field's name when it is decoded
    return raw


def error_text(message: str) -> str:
    """Make a message fit for an Error field, which kube-scheduler uses as a format string, and for an event of the pod.

    What is too long for both is cut: it quotes what a pod says.
    """
    if len(message) > _MOST_ERROR_CHARACTERS:
        message = f"{message[:_MOST_ERROR_CHARACTERS]}… ({len(message) - _MOST_ERROR_CHARACTERS} more characters)"
    return message.replace("%", "(percent)")
