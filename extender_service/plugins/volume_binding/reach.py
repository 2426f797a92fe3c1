"""Which nodes can reach volumes, computed for many volumes at once."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.free_volumes import Reach, reach_of
from extender_service.kube.parsing.csi_migration import (
    FOLLOWED,
    TranslationError,
    in_tree_plugin,
    translate_volume,
    translated_affinity,
)
from extender_service.kube.parsing.selectors import Operator, Requirement, Selector, parse_node_selector
from extender_service.kube.types.storage import PersistentVolume
from extender_service.plugins.shared.node_matching import matches_selector
from extender_service.plugins.volume_binding.verdicts import VolumeVerdicts

Mask = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""A rank for where there is no volume."""


def can_reach(nodes: NodeView, reach: Reach) -> Mask:
    """Return for each node whether it can reach a volume. Only labels count: the reference leaves out the node's name,
    and field requirements hold then (CheckNodeAffinity in component-helpers/storage/volume/helpers.go)."""
    if reach is None:
        return np.ones(len(nodes), np.bool_)
    reached = np.zeros(len(nodes), np.bool_)
    for term in reach.terms:
        reached |= matches_selector(nodes, term.labels)
    return reached


def reach_volume(nodes: NodeView, volume: PersistentVolume, verdicts: VolumeVerdicts, asked: Mask) -> Mask:
    """Return for each node whether it can reach a volume: through the CSI driver where its plugin is migrated.

    If the volume cannot be translated for the driver, none of these nodes can; `verdicts` get an error for those of
    them in `asked`.
    """
    reached = nodes.kept_by_facts(can_reach, reach_of(volume))
    plugin = in_tree_plugin(volume.spec)
    if plugin not in FOLLOWED:
        return reached
    supports = [support is not None and plugin in support.migrated for support in nodes.volume_supports]
    migrated = np.array(supports, np.bool_)[nodes.volume_support]
    if not migrated.any():
        return reached
    try:
        translate_volume(volume, plugin)
    except TranslationError as error:
        verdicts.fail(f"could not translate pv: {error}", asked & migrated)
        return reached & ~migrated
    affinity = translated_affinity(volume, plugin)
    through_driver = can_reach(nodes, None if affinity is None else parse_node_selector(affinity))
    return np.where(migrated, through_driver, reached)


def any_selects(nodes: NodeView, selectors: Iterable[Selector]) -> Mask:
    """Return for each node whether one of the selectors matches its labels. There may be as many selectors as nodes."""
    selected = np.zeros(len(nodes), np.bool_)
    values_by_key: dict[str, set[str]] = {}
    for selector in set(selectors):
        single = _single_choice(selector)
        if single is None:
            selected |= matches_selector(nodes, selector)
        else:
            values_by_key.setdefault(single.key, set()).update(single.values)
    for key, values in values_by_key.items():
        numbers, column = nodes.label(key)
        wanted = np.zeros(column.values.size + 1, np.bool_)
        wanted[[number for value in values if (number := column.values.number_of(value)) >= 0]] = True
        selected |= wanted[numbers]
    return selected


def first_selecting(nodes: NodeView, selectors: Sequence[Selector]) -> NDArray[np.int64]:
    """Return for each node the index of the first selector that matches its labels, `len(selectors)` for none.

    There may be as many selectors as nodes.
    """
    first = np.full(len(nodes), len(selectors), np.int64)
    by_value: dict[str, dict[str, int]] = {}
    for index, selector in enumerate(selectors):
        single = _single_choice(selector)
        if single is None:
            first = np.where(matches_selector(nodes, selector), np.minimum(first, index), first)
        else:
            for value in single.values:
                by_value.setdefault(single.key, {}).setdefault(value, index)
    for key, index_of_value in by_value.items():
        numbers, column = nodes.label(key)
        lowest = np.full(column.values.size + 1, len(selectors), np.int64)
        for value, index in index_of_value.items():
            number = column.values.number_of(value)
            if number >= 0:
                lowest[number] = index
        first = np.minimum(first, lowest[numbers])
    return first


def lowest_ranks(nodes: NodeView, reaches: Sequence[Reach], depth: int) -> NDArray[np.int64]:
    """Return the `depth` lowest ranks of the volumes that each node can reach: node by place, NEVER for no volume.

    `reaches` are those of the volumes by rank.
    """
    ranks_of: dict[Reach, list[int]] = {}
    for rank, reach in enumerate(reaches):
        ranks = ranks_of.setdefault(reach, [])
        if len(ranks) < depth:
            ranks.append(rank)
    found: list[NDArray[np.int64]] = []
    by_value: dict[str, dict[str, list[int]]] = {}
    for reach, ranks in ranks_of.items():
        single = _single_term(reach)
        if single is None:
            places = np.full(depth, NEVER, np.int64)
            places[: len(ranks)] = ranks
            found.append(np.where(can_reach(nodes, reach)[:, np.newaxis], places, NEVER))
        else:
            ranks_of_value = by_value.setdefault(single.key, {})
            for value in single.values:
                ranks_of_value.setdefault(value, []).extend(ranks)
    for key, ranks_of_value in by_value.items():
        numbers, column = nodes.label(key)
        lowest = np.full((column.values.size + 1, depth), NEVER, np.int64)
        for value, ranks in ranks_of_value.items():
            number = column.values.number_of(value)
            if number >= 0:
                kept = sorted(ranks)[:depth]
                lowest[number, : len(kept)] = kept
        found.append(lowest[numbers])
    if not found:
        return np.full((len(nodes), depth), NEVER, np.int64)
    if len(found) == 1:
        return found[0]
    together: NDArray[np.int64] = np.sort(np.concatenate(found, axis=1), axis=1)[:, :depth]
    return together


def _single_term(reach: Reach) -> Requirement | None:
    """Return the requirement of a reach that is no more than one choice of a label's values."""
    if reach is None or len(reach.terms) != 1:
        return None
    return _single_choice(reach.terms[0].labels)


def _single_choice(selector: Selector) -> Requirement | None:
    if selector.nothing or len(selector.requirements) != 1:
        return None
    requirement = selector.requirements[0]
    return requirement if requirement.operator is Operator.IN else None
