"""The types of the extender API as kube-scheduler sends and reads them (k8s.io/kube-scheduler/extender/v1).

Go sends the field names as they are here and accepts them in any case; so does extender/wire.
"""

from typing import dataclass_transform

import msgspec

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
