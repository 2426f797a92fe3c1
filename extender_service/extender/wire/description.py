"""The OpenAPI description of the extender API, made from the wire types.

`python -m extender_service.extender.wire.description` prints it; openapi/extender-v1.yaml is that output.
"""

from typing import Any

import msgspec
import yaml

from extender_service.kube.types import extender_api as wire

_POD = {
    "metadata": {"name": "web-0", "namespace": "default", "uid": "c9f1d7a2-5a0e-4a0e-9f4e-7d0f6f3f2b10"},
    "spec": {
        "schedulerName": "default-scheduler",
        "containers": [{"image": "nginx", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}],
    },
}
_NODES_ARGS = {"Pod": _POD, "NodeNames": ["node-a", "node-b", "node-c"]}
_VICTIMS = {"node-c": {"Pods": [{"UID": "0c0d3a4e-93a5-4b52-8c9f-1d3f7f6f7c1a"}], "NumPDBViolations": 0}}

# Verb -> what it is for, body, its example, answer, its examples by name, and the type of an error that is no answer.
_VERBS: dict[str, dict[str, Any]] = {
    "filter": {
        "summary": "Which nodes a pod may go to",
        "description": "Beside kube-scheduler's own plugins, all nodes that pass are listed, the others with why not. "
        "In their place (`--mode replace`), the one node that was chosen is listed, if any fits.",
        "body": wire.ExtenderArgs,
        "example": _NODES_ARGS,
        "answer": wire.ExtenderFilterResult,
        "examples": {
            "some nodes pass": {
                "Nodes": None,
                "NodeNames": ["node-a"],
                "FailedNodes": {"node-b": "Insufficient cpu"},
                "FailedAndUnresolvableNodes": {"node-c": "node(s) were unschedulable"},
                "Error": "",
            },
            "the body cannot be read": {
                "Nodes": None,
                "NodeNames": None,
                "FailedNodes": {},
                "FailedAndUnresolvableNodes": {},
                "Error": "Pod is missing: send the pod that is to be placed",
            },
        },
    },
    "prioritize": {
        "summary": "How good each node is",
        "description": "0 to 10, or in `--mode replace` the weighted totals of the Score plugins.",
        "body": wire.ExtenderArgs,
        "example": _NODES_ARGS,
        "answer": list[wire.HostPriority],
        "examples": {"three nodes": [{"Host": "node-a", "Score": 7}, {"Host": "node-b", "Score": 4}]},
        "error": wire.ErrorResult,
    },
    "preempt": {
        "summary": "On which nodes deleting pods makes room",
        "description": "Nothing is deleted here: kube-scheduler does that, on the node that it picks.",
        "body": wire.ExtenderPreemptionArgs,
        "example": {"Pod": _POD, "NodeNameToMetaVictims": _VICTIMS},
        "answer": wire.ExtenderPreemptionResult,
        "examples": {"the pod fits without the victims": {"NodeNameToMetaVictims": _VICTIMS}},
        "error": wire.ErrorResult,
    },
    "bind": {
        "summary": "Bind a pod to its node",
        "description": "The UID is a precondition. A pod that is bound to this node already counts as bound.",
        "body": wire.ExtenderBindingArgs,
        "example": {
            "PodName": "web-0",
            "PodNamespace": "default",
            "PodUID": "c9f1d7a2-5a0e-4a0e-9f4e-7d0f6f3f2b10",
            "Node": "node-a",
        },
        "answer": wire.ExtenderBindingResult,
        "examples": {
            "bound": {"Error": ""},
            "bound elsewhere": {"Error": "pod default/web-0 is already bound to node-b"},
        },
    },
}

# The statuses of an error where an answer has no field for it.
_ERRORS = {
    "400": "What is wrong with the body",
    "500": "What failed here, such as a plugin",
    "503": "Why the service cannot decide now: too many calls or bytes, too little time, a state of the cluster that "
    "is not known well enough, or another service leads",
}

# What the service requires of a body. The types have defaults, so that it can say what is missing.
_REQUIRED = {
    "ExtenderArgs": ["Pod"],
    "ExtenderPreemptionArgs": ["Pod"],
    "ExtenderBindingArgs": ["PodName", "PodNamespace", "PodUID", "Node"],
}
# Nodes come in one of two forms; kube-scheduler sends null for the other.
_FORMS_OF_NODES = [
    {"required": ["Nodes"], "properties": {"Nodes": {"type": "object"}}},
    {"required": ["NodeNames"], "properties": {"NodeNames": {"type": "array"}}},
]


def describe() -> dict[str, Any]:
    """Return the OpenAPI 3.1 description."""
    types = [kind for verb in _VERBS.values() for kind in (verb["body"], verb["answer"], verb.get("error")) if kind]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    for name, members in _REQUIRED.items():
        components[name] = _requiring(components[name], members)
    components["ExtenderArgs"]["anyOf"] = _FORMS_OF_NODES
    schema_of = {str(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    description = {
        "openapi": "3.1.0",
        "info": {
            "title": "extender-service",
            "version": "v1",
            "summary": "kube-scheduler's decision making behind the scheduler-extender HTTP API",
            "description": "The types are those of k8s.io/kube-scheduler/extender/v1. Field names are accepted in any "
            "case. Of pods and nodes, only the fields listed here are read; others may be there.",
        },
        "paths": {f"/{verb}": {"post": _operation(verb, facts, schema_of)} for verb, facts in _VERBS.items()},
        "components": {"schemas": components},
    }
    # Plain lists, and nothing twice: YAML would write the second as a reference to the first.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(description))
    return plain


def _requiring(schema: dict[str, Any], members: list[str]) -> dict[str, Any]:
    """Return the schema of an object in which these members are required."""
    given = {member: _given(schema["properties"][member]) for member in members}
    return schema | {"properties": schema["properties"] | given, "required": members}


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a member that has a value, instead of its default: null or an empty text."""
    if "anyOf" not in schema:
        return {"type": "string", "minLength": 1}
    given: dict[str, Any] = next(kind for kind in schema["anyOf"] if kind.get("type") != "null")
    return given


def _operation(verb: str, facts: dict[str, Any], schema_of: dict[str, Any]) -> dict[str, Any]:
    answer = {
        "schema": schema_of[str(facts["answer"])],
        "examples": {name: {"value": value} for name, value in facts["examples"].items()},
    }
    refused = {"schema": {"$ref": "#/components/schemas/ErrorResult"}}
    responses = {
        "200": {"description": "The answer", "content": {"application/json": answer}},
        "403": {
            "description": "A header shows that a web page may have sent it: Origin, or on loopback another Host",
            "content": {"application/json": refused},
        },
        "413": {"description": "The body is too large", "content": {"application/json": refused}},
        "503": {"description": "Bodies take too much memory together", "content": {"application/json": refused}},
    }
    if "error" in facts:
        for status, meaning in _ERRORS.items():
            responses[status] = {"description": meaning, "content": {"application/json": refused}}
    return {
        "operationId": verb,
        "summary": facts["summary"],
        "description": facts["description"],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema_of[str(facts["body"])], "example": facts["example"]}},
        },
        "responses": responses,
    }


if __name__ == "__main__":
    print(yaml.safe_dump(describe(), sort_keys=False, width=120), end="")  # noqa: T201 - it is a command
