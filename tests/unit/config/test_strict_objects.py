import json
from typing import Annotated

import msgspec
import pytest
from msgspec import inspect
from pydantic import ValidationError

from extender_service.config.model import Many, Model, OmitMissing
from extender_service.config.problems import Problem
from extender_service.config.reading import problems_of
from extender_service.config.strict_objects import StrictObject
from extender_service.kube.parsing.known_fields import TABLE
from extender_service.kube.types.core import (
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    SelectorRequirement,
    TopologySpreadConstraint,
)


class Held(Model):
    affinity: Annotated[StrictObject[NodeAffinity] | None, OmitMissing] = None
    constraints: Many[StrictObject[TopologySpreadConstraint]] = ()


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
IN_A = SelectorRequirement("zone", "In", ("a",))
AFFINITY = NodeAffinity(
    NodeSelector((NodeSelectorTerm(match_expressions=(IN_A,)),)),
    (PreferredSchedulingTerm(3, NodeSelectorTerm(match_fields=(IN_A,))), PreferredSchedulingTerm()),
)
CONSTRAINT = TopologySpreadConstraint(
    2, "zone", "DoNotSchedule", LabelSelector({"app": "web"}, (IN_A,)), 3, "Honor", match_label_keys=("hash",)
)
WRITTEN_IN_A = {"key": "zone", "operator": "In", "values": ["a"]}
WRITTEN = {
    "affinity": {
        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [WRITTEN_IN_A]}]},
        PREFERRED: [
            {"weight": 3, "preference": {"matchFields": [WRITTEN_IN_A]}},
            {"weight": 0, "preference": {}},
        ],
    },
    "constraints": [
        {
            "maxSkew": 2,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": [WRITTEN_IN_A]},
            "minDomains": 3,
            "nodeAffinityPolicy": "Honor",
            "matchLabelKeys": ["hash"],
        }
    ],
}
HELD = Held(affinity=AFFINITY, constraints=(CONSTRAINT,))


def read(written: object) -> Held:
    return Held.model_validate(written, by_name=False)


def refused(written: object) -> list[Problem]:
    with pytest.raises(ValidationError) as caught:
        read(written)
    return problems_of(caught.value)


def test_an_object_is_held_as_the_type_that_pods_have() -> None:
    assert read(WRITTEN) == HELD


def test_an_object_is_printed_as_go_prints_it() -> None:
    assert HELD.model_dump(mode="json", by_alias=True) == WRITTEN
    empty = Held(affinity=NodeAffinity(NodeSelector()), constraints=(TopologySpreadConstraint(),))
    assert empty.model_dump(mode="json", by_alias=True) == {
        "affinity": {REQUIRED: {"nodeSelectorTerms": []}},
        "constraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": ""}],
    }


def test_null_means_missing() -> None:
    assert read({"affinity": None, "constraints": [{"minDomains": None, "labelSelector": None}, None]}) == Held(
        constraints=(TopologySpreadConstraint(), TopologySpreadConstraint())
    )


def test_all_that_is_wrong_is_found_with_paths() -> None:
    terms = [{"matchExpressions": [{"key": 3, "operater": "In"}]}, {"matchField": []}, "x"]
    constraint = {"maxSkew": 2**31, "topologyKey": None, "labelSelector": {"matchLabels": {"a": 1}}, "minDomains": "2"}
    assert refused({"affinity": {REQUIRED: {"nodeSelectorTerms": terms}}, "constraints": [constraint]}) == [
        Problem(f"affinity.{REQUIRED}.nodeSelectorTerms{path}", message)
        for path, message in (
            ("[0].matchExpressions[0].key", "Invalid value: 3: must be text; put it in quotes"),
            ("[0].matchExpressions[0].operater", "unknown field: did you mean operator?"),
            ("[1].matchField", "unknown field: did you mean matchFields?"),
            ("[2]", 'Invalid value: "x": must be a mapping'),
        )
    ] + [
        Problem(f"constraints[0].{path}", message)
        for path, message in (
            ("maxSkew", "Invalid value: 2147483648: must be at most 2147483647"),
            ("labelSelector.matchLabels.a", "Invalid value: 1: must be text; put it in quotes"),
            ("minDomains", 'Invalid value: "2": must be a whole number'),
        )
    ]


def test_the_types_that_configurations_hold_have_every_field_of_kubernetes() -> None:
    known = json.loads(TABLE.read_text())

    def compare(kind: type[msgspec.Struct], name: str) -> None:
        struct = inspect.type_info(kind)
        assert isinstance(struct, inspect.StructType)
        fields = {field.encode_name: field.type for field in struct.fields}
        assert fields.keys() == known[name].keys()
        for field, of in fields.items():
            for inner in [*getattr(of, "types", ()), getattr(of, "item_type", None), of]:
                if isinstance(inner, inspect.StructType):
                    compare(inner.cls, known[name][field].removeprefix("[]"))

    compare(NodeAffinity, "core/v1.NodeAffinity")
    compare(TopologySpreadConstraint, "core/v1.TopologySpreadConstraint")
