"""Label and node selectors, parsed once and then matched often.

Label selectors follow labels.Requirement (k8s.io/apimachinery/pkg/labels), node selectors the package
k8s.io/component-helpers/scheduling/corev1/nodeaffinity. Parsed selectors are immutable and normalized, so they serve as
cache keys: `app in (a, b)` and `app in (b, a)` are equal.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Self

import msgspec

from extender_service.caches import cached
from extender_service.kube.parsing.field_errors import (
    FieldError,
    InvalidLabelKey,
    InvalidValue,
    UnknownOperator,
    UnsupportedValue,
    child,
    described,
)
from extender_service.kube.parsing.label_syntax import V1_31, Wording, label_key_faults, label_value_faults
from extender_service.kube.types import core as objects

# The only node field that a node selector supports.
NODE_NAME_FIELD = "metadata.name"

_INT64 = re.compile(r"[+-]?[0-9]+")
_MOST_INTEGER_CHARACTERS = 4000
_required_decoder = msgspec.msgpack.Decoder(tuple[dict[str, str] | None, objects.NodeSelector | None])
_preferred_decoder = msgspec.msgpack.Decoder(tuple[objects.PreferredSchedulingTerm, ...])


class SelectorError(ValueError):
    """A selector that Kubernetes refuses. The text is v1.31.1's own, with all `errors` aggregated."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__(described(errors, V1_31))
        self.errors = errors

    def text(self, wording: Wording) -> str:
        """Return the text in the words of a release."""
        return described(self.errors, wording)


class Operator(StrEnum):
    """The operator of a requirement (metav1.LabelSelectorOperator, v1.NodeSelectorOperator)."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


# A member of an enumeration is found in a third of the time under a name of the module.
_IN, _NOT_IN, _EXISTS, _DOES_NOT_EXIST, _GT, _LT = Operator
_LABEL_OPERATORS = frozenset({_IN, _NOT_IN, _EXISTS, _DOES_NOT_EXIST})
_NODE_OPERATORS = tuple(Operator)
_FIELD_OPERATORS = (Operator.IN, Operator.NOT_IN)


class _Parsed(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Base of the parsed types: immutable, hashed once, invisible to the garbage collector."""


class Requirement(_Parsed, frozen=True):
    """A requirement on one label. `values` is sorted and distinct. Gt and Lt compare the label's value with `bound`."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    bound: int | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels satisfy the requirement (labels.Requirement.Matches)."""
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """Return whether a label of this value satisfies the requirement; None stands for an absent label."""
        operator = self.operator
        if operator is _IN:
            return value in self.values
        if operator is _NOT_IN:
            return value not in self.values
        if operator is _EXISTS:
            return value is not None
        if operator is _DOES_NOT_EXIST:
            return value is None
        number = None if value is None else parse_label_integer(value)
        if number is None or self.bound is None:
            return False
        return number > self.bound if operator is _GT else number < self.bound


class Selector(_Parsed, frozen=True):
    """Requirements on labels, sorted by key. All must hold. With `nothing`, the selector selects no object."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @classmethod
    def of(cls, requirements: list[Requirement]) -> Self:
        """Return the selector of these requirements; their order does not matter."""
        if len(requirements) < 2:
            return cls(tuple(requirements))
        distinct = sorted(set(requirements), key=lambda item: (item.key, item.operator, item.values))
        return cls(tuple(distinct))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the selector selects an object with these labels."""
        if self.nothing:
            return False
        # In half the time that all() takes.
        for requirement in self.requirements:
            value = labels.get(requirement.key)
            if requirement.operator is _IN:  # mostly
                if value not in requirement.values:
                    return False
            elif not requirement.matches_value(value):
                return False
        return True


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


class FieldRequirement(_Parsed, frozen=True):
    """A requirement on a node's field: In or NotIn with one value. A field other than metadata.name counts as empty."""

    key: str
    operator: Operator
    value: str

    def matches(self, node_name: str) -> bool:
        """Return whether the node of this name satisfies the requirement."""
        actual = node_name if self.key == NODE_NAME_FIELD else ""
        return (actual == self.value) is (self.operator is Operator.IN)


class NodeTerm(_Parsed, frozen=True):
    """A parsed v1.NodeSelectorTerm: requirements on a node's labels and fields. All must hold."""

    labels: Selector = EVERYTHING
    fields: tuple[FieldRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether the term selects the node."""
        return self.labels.matches(labels) and all(field.matches(node_name) for field in self.fields)


class ParsedNodeSelector(_Parsed, frozen=True):
    """A parsed v1.NodeSelector: one of the terms must match. Without terms, it matches no node.

    A malformed term matches no node and is left out; the other terms still count. `errors` then has all errors
    (nodeaffinity.LazyErrorNodeSelector). A strict caller raises them (nodeaffinity.NewNodeSelector).
    """

    terms: tuple[NodeTerm, ...]
    errors: tuple[FieldError, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether the selector selects the node."""
        return any(term.matches(labels, node_name) for term in self.terms)


class WeightedNodeTerm(_Parsed, frozen=True):
    """A parsed v1.PreferredSchedulingTerm."""

    weight: int
    term: NodeTerm


class PreferredSchedulingTerms(_Parsed, frozen=True):
    """Parsed v1.PreferredSchedulingTerms (nodeaffinity.PreferredSchedulingTerms)."""

    terms: tuple[WeightedNodeTerm, ...]

    def score(self, labels: Mapping[str, str], node_name: str) -> int:
        """Return the sum of the weights of the terms that select the node."""
        return sum(preferred.weight for preferred in self.terms if preferred.term.matches(labels, node_name))


class RequiredNodeAffinity(_Parsed, frozen=True):
    """A pod's nodeSelector and required node affinity, parsed (nodeaffinity.RequiredNodeAffinity)."""

    node_selector: Selector = EVERYTHING
    affinity: ParsedNodeSelector | None = None

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether the node satisfies both."""
        if not self.node_selector.matches(labels):
            return False
        return self.affinity is None or self.affinity.matches(labels, node_name)


def parse_label_selector(selector: objects.LabelSelector | None) -> Selector:
    """Parse like metav1.LabelSelectorAsSelector: None selects nothing, an empty selector everything.

    Raises SelectorError for the first invalid requirement.
    """
    if selector is None:
        return NOTHING
    requirements = [_checked_requirement((value,), key, "In", "") for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        if expression.operator not in _LABEL_OPERATORS:
            raise SelectorError([UnknownOperator(expression.operator)])
        requirements.append(_checked_requirement(expression.values, expression.key, expression.operator, ""))
    return Selector.of(requirements)


def label_set_selector(labels: Mapping[str, str]) -> Selector:
    """Select objects that have all these labels; nothing is validated (labels.SelectorFromSet)."""
    return Selector.of([_equality(item) for item in labels.items()])


def parse_node_selector(selector: objects.NodeSelector) -> ParsedNodeSelector:
    """Parse like nodeaffinity.NewLazyErrorNodeSelector: drop empty terms, and collect errors in the result."""
    terms: list[NodeTerm] = []
    errors: list[FieldError] = []
    for index, term in enumerate(selector.node_selector_terms):
        if not _is_empty(term):
            try:
                terms.append(_node_term(term, f"nodeSelectorTerms[{index}]"))
            except SelectorError as error:
                errors += error.errors
    return ParsedNodeSelector(tuple(terms), tuple(errors))


def parse_preferred_terms(preferred: tuple[objects.PreferredSchedulingTerm, ...]) -> PreferredSchedulingTerms:
    """Parse like nodeaffinity.NewPreferredSchedulingTerms: drop empty terms and those of weight 0 unchecked.

    Raises SelectorError with the errors of all other terms.
    """
    terms: list[WeightedNodeTerm] = []
    errors: list[FieldError] = []
    for index, term in enumerate(preferred):
        if term.weight != 0 and not _is_empty(term.preference):
            try:
                terms.append(WeightedNodeTerm(term.weight, _node_term(term.preference, f"[{index}]")))
            except SelectorError as error:
                errors += error.errors
    if errors:
        raise SelectorError(errors)
    return PreferredSchedulingTerms(tuple(terms))


def required_node_affinity(spec: objects.PodSpec) -> RequiredNodeAffinity:
    """Parse a pod's nodeSelector and required node affinity (nodeaffinity.GetRequiredNodeAffinity)."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return _required(msgspec.msgpack.encode((spec.node_selector, None if affinity is None else affinity.required)))


# Pods of one template share theirs, and bytes can be looked up where the objects cannot.


@cached("required node affinity", most_entries=256, most_entry_bytes=32 << 10, most_size=2 << 10)
def _required(encoded: bytes) -> RequiredNodeAffinity:
    node_selector, required = _required_decoder.decode(encoded)
    return RequiredNodeAffinity(
        label_set_selector(node_selector or {}), None if required is None else parse_node_selector(required)
    )


def preferred_node_affinity(spec: objects.PodSpec) -> PreferredSchedulingTerms | None:
    """What a pod prefers of nodes, None if it prefers nothing. Raises SelectorError."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or not affinity.preferred:
        return None
    return _preferred(msgspec.msgpack.encode(affinity.preferred))


@cached("preferred node affinity", most_entries=256, most_entry_bytes=24 << 10, most_size=2 << 10)
def _preferred(encoded: bytes) -> PreferredSchedulingTerms:
    return parse_preferred_terms(_preferred_decoder.decode(encoded))


def parse_label_integer(text: str) -> int | None:
    """Parse a decimal number like Go's strconv.ParseInt; None if that fails or overflows int64."""
    if len(text) > _MOST_INTEGER_CHARACTERS or not _INT64.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


# Templates repeat what they ask for in every pod.


@cached(
    "equality requirements",
    most_entries=512,
    most_entry_bytes=2 << 10,
    most_size=256,
    size=lambda item: len(item[0]) + len(item[1]),
)
def _equality(item: tuple[str, str]) -> Requirement:
    key, value = item
    return _new_requirement(key, Operator.IN, (value,))


def _new_requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    bound = parse_label_integer(values[0]) if operator in (Operator.GT, Operator.LT) and len(values) == 1 else None
    return Requirement(key, Operator(operator), tuple(sorted(set(values))), bound)


@cached("requirements", most_entries=4096, most_entry_bytes=1500, most_size=8)
def _checked_requirement(values: tuple[str, ...], key: str, operator: str, path: str) -> Requirement:
    """The requirement, or SelectorError with what labels.NewRequirement finds wrong, in its order."""
    errors: list[FieldError] = []
    if label_key_faults(key):
        errors.append(InvalidLabelKey(child(path, "key"), key))
    values_path = child(path, "values")
    match operator:
        case Operator.IN | Operator.NOT_IN if not values:
            errors.append(InvalidValue(values_path, values, "for 'in', 'notin' operators, values set can't be empty"))
        case Operator.EXISTS | Operator.DOES_NOT_EXIST if values:
            errors.append(InvalidValue(values_path, values, "values set must be empty for exists and does not exist"))
        case Operator.GT | Operator.LT:
            if len(values) != 1:
                errors.append(
                    InvalidValue(values_path, values, "for 'Gt', 'Lt' operators, exactly one value is required")
                )
            errors += [
                InvalidValue(f"{values_path}[{index}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
                for index, value in enumerate(values)
                if parse_label_integer(value) is None
            ]
    for index, value in enumerate(values):
        if faults := label_value_faults(value):
            errors.append(InvalidValue(f"{values_path}[{index}][{key}]", value, "; ".join(faults)))
    if errors:
        raise SelectorError(errors)
    return _new_requirement(key, operator, values)


def _is_empty(term: objects.NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _node_term(term: objects.NodeSelectorTerm, path: str) -> NodeTerm:
    """Parse a term; raises SelectorError with all its errors."""
    requirements: list[Requirement] = []
    fields: list[FieldRequirement] = []
    errors: list[FieldError] = []
    for index, expression in enumerate(term.match_expressions):
        here = f"{path}.matchExpressions[{index}]"
        if expression.operator not in _NODE_OPERATORS:
            errors.append(UnsupportedValue(f"{here}.operator", expression.operator, _NODE_OPERATORS))
            continue
        try:
            requirements.append(_checked_requirement(expression.values, expression.key, expression.operator, here))
        except SelectorError as error:
            errors += error.errors
    for index, expression in enumerate(term.match_fields):
        here = f"{path}.matchFields[{index}]"
        if expression.operator not in _FIELD_OPERATORS:
            errors.append(UnsupportedValue(f"{here}.operator", expression.operator, _FIELD_OPERATORS))
        elif len(expression.values) != 1:
            errors.append(InvalidValue(f"{here}.values", expression.values, "must have one element"))
        else:
            fields.append(FieldRequirement(expression.key, Operator(expression.operator), expression.values[0]))
    if errors:
        raise SelectorError(errors)
    return NodeTerm(Selector.of(requirements), tuple(fields))
