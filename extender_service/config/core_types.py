"""Types of the core API as they occur in plugin arguments: every field known, so that a misspelt one is an error."""

from typing import Annotated

from pydantic import Field

from extender_service.config.model import Int32, Many, Model, OmitEmpty, OmitMissing


class SelectorRequirement(Model):
    """v1.NodeSelectorRequirement and metav1.LabelSelectorRequirement, which have the same fields."""

    key: str = ""
    operator: str = ""
    values: Annotated[Many[str], OmitEmpty] = ()


class LabelSelector(Model):
    """metav1.LabelSelector."""

    match_labels: Annotated[dict[str, str], OmitEmpty] = {}
    match_expressions: Annotated[Many[SelectorRequirement], OmitEmpty] = ()


class NodeSelectorTerm(Model):
    """v1.NodeSelectorTerm."""

    match_expressions: Annotated[Many[SelectorRequirement], OmitEmpty] = ()
    match_fields: Annotated[Many[SelectorRequirement], OmitEmpty] = ()


class NodeSelector(Model):
    """v1.NodeSelector."""

    node_selector_terms: Many[NodeSelectorTerm] = ()


class PreferredSchedulingTerm(Model):
    """v1.PreferredSchedulingTerm."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model):
    """v1.NodeAffinity."""

    required: Annotated[NodeSelector | None, OmitMissing] = Field(
        default=None, alias="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: Annotated[Many[PreferredSchedulingTerm], OmitEmpty] = Field(
        default=(), alias="preferredDuringSchedulingIgnoredDuringExecution"
    )


class TopologySpreadConstraint(Model):
    """v1.TopologySpreadConstraint. As a default constraint it has no label selector: each pod's own is made."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: Annotated[LabelSelector | None, OmitMissing] = None
    min_domains: Annotated[Int32 | None, OmitMissing] = None
    node_affinity_policy: Annotated[str | None, OmitMissing] = None
    node_taints_policy: Annotated[str | None, OmitMissing] = None
    match_label_keys: Annotated[Many[str], OmitEmpty] = ()
