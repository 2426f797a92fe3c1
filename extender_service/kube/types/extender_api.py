"""The types of the extender API as kube-scheduler sends and reads them (k8s.io/kube-scheduler/extender/v1).

Go writes the field names in this case and accepts them in any case. So does extender/wire.
"""

from typing import dataclass_transform

import msgspec

from extender_service.kube.types.core import Int64, Object, ObjectMeta, Pod


class NodeList(Object):
    """v1.NodeList with raw JSON nodes: a verb decodes a node only if it needs it, and returns it unchanged."""

    items: tuple[msgspec.Raw, ...] = ()


class NodeHead(Object):
    """A node's metadata, enough to decide whether the cache has the same version."""

    metadata: ObjectMeta = ObjectMeta()


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Args(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """Base of the requests that kube-scheduler sends."""

    @property
    def is_complete(self) -> bool:
        """Whether all required fields are set. If not, they may stand in the JSON under a name in another case."""
        return False


class ExtenderArgs(Args):
    """The pod to place, and the candidate nodes: `NodeNames` if nodeCacheCapable is set, else `Nodes`."""

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
    """Pods to delete from a node, and how many of these deletions violate a PodDisruptionBudget."""

    pods: list[MetaPod] = []
    num_pdb_violations: Int64 = msgspec.field(name="NumPDBViolations", default=0)


class Victims(Args):
    """Like MetaVictims, with whole pods."""

    pods: list[Pod] = []
    num_pdb_violations: Int64 = msgspec.field(name="NumPDBViolations", default=0)


class ExtenderPreemptionArgs(Args):
    """The preemptor, and by node name the pods that kube-scheduler would delete for it."""

    pod: Pod | None = None
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderBindingArgs(Args):
    """The pod to bind, and its node."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = msgspec.field(name="PodUID", default="")
    node: str = ""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Result(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """Base of the answers that kube-scheduler reads."""


class ResultNodeList(Object):
    """A v1.NodeList of nodes in the JSON of the request."""

    items: list[msgspec.Raw]


class ExtenderFilterResult(Result):
    """The nodes that fit the pod, and for each other node the reason why it does not.

    Has `Nodes` or `NodeNames`, whichever the request has. Preemption could help on `FailedNodes`, but not on
    `FailedAndUnresolvableNodes`. If `Error` is set, kube-scheduler ignores the other fields.
    """

    nodes: ResultNodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(Result):
    """A node and its score. The answer of prioritize is a list of these."""

    host: str
    score: int


class ExtenderPreemptionResult(Result):
    """The candidate nodes for preemption, each with the victims to delete there."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class ExtenderBindingResult(Result):
    """`Error` is empty if the pod is bound."""

    error: str = ""


class ErrorResult(Result):
    """The error of a refused request, sent with an HTTP status other than 200."""

    error: str
