import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from extender_service.extender.wire.decoding import ArgsDecoder
from extender_service.extender.wire.description import describe
from extender_service.kube.types.extender_api import (
    ErrorResult,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
)

DESCRIPTION = describe()
REPOSITORY = Path(__file__).parents[4]

BODIES: dict[str, Any] = {
    "filter": ExtenderArgs,
    "prioritize": ExtenderArgs,
    "preempt": ExtenderPreemptionArgs,
    "bind": ExtenderBindingArgs,
}
ANSWERS: dict[str, Any] = {
    "filter": ExtenderFilterResult,
    "prioritize": list[HostPriority],
    "preempt": ExtenderPreemptionResult,
    "bind": ExtenderBindingResult,
}


def operation(verb: str) -> Any:
    return DESCRIPTION["paths"][f"/{verb}"]["post"]


def validate(value: object, schema: Any) -> None:
    """Check a value against a schema of the description, by the rules of the JSON Schema that OpenAPI 3.1 uses."""
    whole = {"components": DESCRIPTION["components"], **schema}
    jsonschema.Draft202012Validator.check_schema(whole)
    jsonschema.Draft202012Validator(whole).validate(value)


def test_the_file_is_what_the_code_says() -> None:
    written = yaml.safe_load((REPOSITORY / "openapi" / "extender-v1.yaml").read_text())
    assert written == DESCRIPTION, "run make openapi"


def test_every_verb_is_described() -> None:
    assert set(DESCRIPTION["paths"]) == {f"/{verb}" for verb in BODIES}


@pytest.mark.parametrize("verb", BODIES)
def test_a_request_that_is_shown_can_be_sent(verb: str) -> None:
    body = operation(verb)["requestBody"]["content"]["application/json"]
    validate(body["example"], body["schema"])
    args = ArgsDecoder(BODIES[verb]).decode(msgspec.json.encode(body["example"]))
    assert _named_as_shown(msgspec.to_builtins(args), body["example"])


@pytest.mark.parametrize("verb", BODIES)
def test_answers_that_are_shown_have_the_form_of_answers(verb: str) -> None:
    answer = operation(verb)["responses"]["200"]["content"]["application/json"]
    assert answer["examples"]
    for example in answer["examples"].values():
        validate(example["value"], answer["schema"])
        assert msgspec.to_builtins(msgspec.convert(example["value"], ANSWERS[verb])) == example["value"]


@pytest.mark.parametrize("status", ["400", "500"])
def test_what_has_no_room_for_an_error_answers_with_a_status(status: str) -> None:
    for verb in BODIES:
        refused = operation(verb)["responses"].get(status)
        assert (refused is not None) == (verb in ("prioritize", "preempt"))
        if refused:
            validate(msgspec.to_builtins(ErrorResult("no")), refused["content"]["application/json"]["schema"])


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("filter", {}),
        ("filter", {"Pod": "web"}),
        ("filter", {"Pod": None, "NodeNames": ["a"]}),
        ("filter", {"Pod": {}, "NodeNames": "a"}),
        ("prioritize", {"Pod": {}}),
        ("prioritize", {"Pod": {}, "Nodes": None, "NodeNames": None}),
        ("preempt", {}),
        ("preempt", {"Pod": {}, "NodeNameToMetaVictims": {"a": {"Pods": "b"}}}),
        ("bind", {"PodName": 1, "PodNamespace": "default", "PodUID": "uid", "Node": "a"}),
        ("bind", {"PodName": "web"}),
        ("bind", {"PodName": "web", "PodNamespace": "default", "PodUID": "", "Node": "a"}),
    ],
)
def test_the_schemas_refuse_what_the_service_refuses(verb: str, body: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate(body, operation(verb)["requestBody"]["content"]["application/json"]["schema"])


@pytest.mark.parametrize("nodes", [{"Nodes": None, "NodeNames": ["a"]}, {"Nodes": {"items": []}, "NodeNames": None}])
def test_the_schemas_take_nodes_in_either_form(nodes: dict[str, Any]) -> None:
    validate({"Pod": {}, **nodes}, operation("filter")["requestBody"]["content"]["application/json"]["schema"])


def test_the_texts_name_fields_as_they_are_sent() -> None:
    for name, schema in DESCRIPTION["components"]["schemas"].items():
        assert not re.findall(r"`\w+_\w+`", schema["description"]), name


def _named_as_shown(decoded: Any, shown: Any) -> bool:
    """Whether all that is shown has been read, under the same names."""
    if isinstance(shown, dict):
        return isinstance(decoded, dict) and all(
            name in decoded and _named_as_shown(decoded[name], member) for name, member in shown.items()
        )
    if isinstance(shown, list):
        return len(decoded) == len(shown) and all(map(_named_as_shown, decoded, shown))
    return bool(decoded == shown)
