"""Which nodes a selector matches, computed once per distinct label value and looked up for every node."""

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import LabelColumn
from extender_service.cluster.view.node_view import NodeView
from extender_service.kube.parsing.selectors import (
    EVERYTHING,
    NODE_NAME_FIELD,
    FieldRequirement,
    NodeTerm,
    Operator,
    ParsedNodeSelector,
    PreferredSchedulingTerms,
    RequiredNodeAffinity,
    Requirement,
    Selector,
)

Mask = NDArray[np.bool_]


def matches_requirement(nodes: NodeView, requirement: Requirement) -> Mask:
    """Return for each node whether its labels meet a requirement."""
    numbers, column = nodes.label(requirement.key)
    matching: Mask = _by_value(column, requirement).take(numbers)
    return matching


def _by_value(column: LabelColumn, requirement: Requirement) -> Mask:
    """Return for each value number whether it meets the requirement; the last entry (ABSENT) is for no value."""
    matching = np.zeros(column.values.size + 1, np.bool_)
    match requirement.operator:
        case Operator.IN:
            matching[_numbers(column, requirement)] = True
        case Operator.NOT_IN:
            matching[:] = True
            matching[_numbers(column, requirement)] = False
        case Operator.EXISTS:
            matching[:-1] = True
        case Operator.DOES_NOT_EXIST:
            matching[-1] = True
        case Operator.GT | Operator.LT:
            integers, is_integer = column.integers()
            if requirement.bound is not None:
                is_beyond = (
                    integers > requirement.bound
                    if requirement.operator is Operator.GT
                    else integers < requirement.bound
                )
                matching[:-1] = is_integer & is_beyond
    return matching


def _numbers(column: LabelColumn, requirement: Requirement) -> list[int]:
    return [number for value in requirement.values if (number := column.values.number_of(value)) >= 0]


def matches_selector(nodes: NodeView, selector: Selector) -> Mask:
    """Return for each node whether the selector matches its labels."""
    if selector.nothing:
        return np.zeros(len(nodes), np.bool_)
    if not selector.requirements:
        return np.ones(len(nodes), np.bool_)
    first, *others = selector.requirements
    matching = matches_requirement(nodes, first)
    for requirement in others:
        matching &= matches_requirement(nodes, requirement)
    return matching


def matches_field(nodes: NodeView, field: FieldRequirement) -> Mask:
    """Return for each node whether its name meets the requirement."""
    is_name = field.key == NODE_NAME_FIELD
    is_equal = nodes.is_named([field.value]) if is_name else np.full(len(nodes), field.value == "")
    return is_equal if field.operator is Operator.IN else ~is_equal


def matches_term(nodes: NodeView, term: NodeTerm) -> Mask:
    """Return for each node whether all requirements of a term hold."""
    matching = matches_selector(nodes, term.labels)
    for field in term.fields:
        matching &= matches_field(nodes, field)
    return matching


def matches_node_selector(nodes: NodeView, selector: ParsedNodeSelector) -> Mask:
    """Return for each node whether one of the terms holds."""
    if not selector.terms:
        return np.zeros(len(nodes), np.bool_)
    first, *others = selector.terms
    matching = matches_term(nodes, first)
    for term in others:
        matching |= matches_term(nodes, term)
    return matching


def matches_affinity(nodes: NodeView, affinity: RequiredNodeAffinity) -> Mask:
    """Return for each node whether the pod's nodeSelector and required affinity allow it."""
    if affinity.affinity is None:
        return matches_selector(nodes, affinity.node_selector)
    matching = matches_node_selector(nodes, affinity.affinity)
    if affinity.node_selector != EVERYTHING:
        matching &= matches_selector(nodes, affinity.node_selector)
    return matching


def preference(nodes: NodeView, preferred: PreferredSchedulingTerms) -> NDArray[np.int64]:
    """Return for each node the sum of the weights of the terms that hold there."""
    total = np.zeros(len(nodes), np.int64)
    for weighted in preferred.terms:
        total += weighted.weight * matches_term(nodes, weighted.term)
    return total
