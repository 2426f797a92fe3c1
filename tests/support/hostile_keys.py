"""Keys for each cache that make it as large as they can: all different, and each as large as what is kept may be.

An `Ask` asks for the result of the key of a number, of so many things. Where pods could make up keys in several ways,
there are several.
"""

import string
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.amounts.dimensions import Dimensions
from extender_service.cluster.amounts.footprint import requests_and_ports
from extender_service.cluster.amounts.requests import OLDEST_REQUEST_RULES, RequestShape, pod_requests, request_shape
from extender_service.cluster.nodes.images import Images
from extender_service.cluster.nodes.volume_support import limit_key
from extender_service.cluster.owners.owners import Workloads
from extender_service.cluster.pods import pod_entries
from extender_service.cluster.pods.pod_counts import PodCounts, PodQuery
from extender_service.cluster.pods.pod_table import PodTable
from extender_service.cluster.pods.running_terms import RunningTerms, TermKey
from extender_service.cluster.selection.label_sets import LabelSet, PodSelector, label_set
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.structures.interning import shared
from extender_service.cluster.view import node_view
from extender_service.cluster.view.node_view import NodeView
from extender_service.extender.refused_pods import RefusedPods
from extender_service.extender.wire import request_limits as moderation
from extender_service.extender.wire.nodes_args import ExtenderArgsDecoder
from extender_service.extender.wire.passing_names import PassingNamesEncoder
from extender_service.extender.wire.priorities import Priorities, PrioritiesEncoder
from extender_service.kube.parsing.pod_affinity import AffinityTerm, pod_affinity_terms
from extender_service.kube.parsing.quantities import parse_quantity
from extender_service.kube.parsing.resource_names import is_extended_resource, is_scalar_resource
from extender_service.kube.parsing.selectors import (
    NOTHING,
    label_set_selector,
    parse_label_selector,
    preferred_node_affinity,
    required_node_affinity,
)
from extender_service.kube.types import core as objects
from extender_service.kube.types.core import (
    Affinity,
    ContainerImage,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    SelectorRequirement,
    TopologySpreadConstraint,
)
from extender_service.kube.types.extender_api import ExtenderFilterResult
from extender_service.kube.types.workloads import Namespace
from extender_service.kube.writing import timestamps
from extender_service.observability import logs
from extender_service.plugins.node_resources import fit as node_resources_fit
from extender_service.plugins.node_resources import usages as resource_scoring
from extender_service.plugins.node_resources.usages import WeightedResource
from extender_service.plugins.pod_topology_spread.constraints import own_constraints
from extender_service.scheduler.metrics import pod_resources
from extender_service.scheduling.asked_nodes import NodeFinder
from tests.support.objects import make_container, make_node, make_pod

Ask = Callable[[int, int], object]
"""Ask for the result of a key, by its number and how many things are in it."""

_TYPES = [kind for kind in vars(objects).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
_ROWS = 200
# As many things in a key as is enough where all keys together are limited.
_MANY = 100
# A character of four bytes.
_WIDE = "\U0001f600"


def _short(number: int) -> str:
    """A text as short as can be that Python does not share: two letters, or one that is not Latin."""
    letters = string.ascii_letters
    few = len(letters) ** 2
    if number < few:
        return letters[number // len(letters)] + letters[number % len(letters)]
    return chr(0x100 + number - few)


def _labels(number: int, things: int) -> dict[str, str]:
    return {"a": f"{number:06}"} | {_short(at): _short(at + 1) for at in range(things)}


def _taken(spec: PodSpec) -> object:
    return requests_and_ports(Pod(spec=spec), OLDEST_REQUEST_RULES)


def _shape(number: int, things: int) -> RequestShape:
    requests = {f"a/{_short(at)}": 1_000_000 + number for at in range(things)}
    return request_shape(PodSpec(containers=(make_container(dict(requests)),)))


def _shape_of_many(number: int, things: int) -> RequestShape:
    return request_shape(PodSpec(containers=tuple(make_container({"cpu": 1_000_000 + number}) for _ in range(things))))


def _weighed(shape: RequestShape, things: int) -> object:
    resources = tuple(WeightedResource(f"a/{_short(at)}", 1000) for at in range(things))
    return resource_scoring._weighed(shape, resources, tuple(range(1000, 1000 + things)), False)


def _spec_with_ports(number: int, things: int) -> PodSpec:
    return PodSpec(containers=(make_container(ports=[1_000_000 + number + 100_000 * at for at in range(things)]),))


def _spec_with_requests(number: int, things: int) -> PodSpec:
    return PodSpec(containers=(make_container({f"a/{_short(at)}": 1_000_000 + number for at in range(things)}),))


def _terms(number: int, things: int) -> object:
    terms = tuple(PodAffinityTerm(f"{number:06}", LabelSelector({"a": _short(at)})) for at in range(things))
    return pod_affinity_terms("a", Affinity(pod_affinity=PodAffinity(required=terms)))


def _term(number: int, things: int) -> object:
    expressions = tuple(SelectorRequirement(_short(at), "In", (f"{number:06}", _short(at))) for at in range(things))
    term = PodAffinityTerm("a", LabelSelector({}, expressions))
    return pod_affinity_terms("a", Affinity(pod_affinity=PodAffinity(required=(term,))))


def _spread(number: int, things: int) -> object:
    constraint = TopologySpreadConstraint(1, "a", "a", LabelSelector(_labels(number, things)))
    return own_constraints(LabelSet("a", {}), (constraint,), "a")


def _spread_often(number: int, things: int) -> object:
    constraints = tuple(TopologySpreadConstraint(1_000_000 + number, _short(at), "a") for at in range(things))
    return own_constraints(LabelSet("a", {}), constraints, "a")


def _spread_by_own_labels(number: int, things: int) -> object:
    labels = _labels(number, things)
    constraint = TopologySpreadConstraint(1, "a", "a", LabelSelector(), match_label_keys=tuple(labels))
    return own_constraints(LabelSet("a", labels), (constraint,), "a")


def _values(number: int, things: int) -> object:
    values = tuple(f"{number:06}{at:03}{'a' * 54}" for at in range(things))
    return parse_label_selector(LabelSelector({}, (SelectorRequirement("a" * 63, "In", values),)))


def _names(number: int, things: int) -> list[str]:
    return [f"{number}", *[_WIDE * 16 + str(at) for at in range(things)]]


def _body(number: int, things: int) -> bytes:
    return b'{"Pod":{},"NodeNames":%b}' % msgspec.json.encode(_names(number, things))


def _body_of_pod(number: int, things: int) -> bytes:
    labels, more = (msgspec.json.encode(_labels(number, min(most, 900))) for most in (things, max(things - 900, 0)))
    return b'{"Pod":{"metadata":{"labels":%b,"annotations":%b}},"NodeNames":["a"]}' % (labels, more)


def _decoded_names() -> Ask:
    decoder = ExtenderArgsDecoder()
    return lambda number, things: decoder.decode(_body(number, things))


def _decoded_pods() -> Ask:
    decoder = ExtenderArgsDecoder()
    decoder.decode(b'{"Pod":{},"NodeNames":["a"]}')
    return lambda number, things: decoder.decode(_body_of_pod(number, things))


def _found() -> Ask:
    finder = NodeFinder(Cluster())
    return lambda number, things: finder.named(_names(number, things))


def _written() -> Ask:
    encoder = PrioritiesEncoder()
    return lambda number, things: encoder.encode(Priorities(_names(number, things), np.zeros(things + 1, np.int64)))


def _passing() -> Ask:
    encoder = PassingNamesEncoder()
    result = ExtenderFilterResult(node_names=[])
    return lambda number, things: encoder.encode(result, _names(number, things), np.ones(things + 1, np.bool_))


def _selected() -> Ask:
    workloads = Workloads()
    for name in ("a", "b", "c"):
        workloads.apply(Namespace(ObjectMeta(name=name)))
    return lambda number, things: workloads.namespaces_selected_by(
        label_set_selector(_labels(number, min(things, _MANY)))
    )


def _answer(workloads: Workloads, label_set: LabelSet) -> LabelSet:
    return label_set


def _answers() -> Ask:
    workloads = Workloads()
    return lambda number, things: workloads.remembered(_answer, LabelSet("a", _labels(number, min(things, _MANY))))


def _about() -> Ask:
    terms = RunningTerms()

    def ask(number: int, things: int) -> object:
        """Ask twice: they are kept from the second time on."""
        label_set = LabelSet("a", _labels(number, min(things, _MANY)))
        return terms.about(label_set, {}), terms.about(label_set, {})

    return ask


def _images() -> Ask:
    images = Images()

    def ask(number: int, things: int) -> object:
        name = f"{number:06}{_WIDE * min(things, _MANY)}"
        images.set(0, (ContainerImage((name,), 1), ContainerImage((name,), 2)))
        return images.find(name)

    return ask


def _pod_counts() -> Ask:
    counts = PodCounts(PodTable(Dimensions()))

    def ask(number: int, things: int) -> object:
        query = PodQuery((PodSelector(None, label_set_selector(_labels(number, min(things, _MANY)))),))
        return counts.by_row(query, _ROWS)

    return ask


def _pod_sums() -> Ask:
    counts = PodCounts(PodTable(Dimensions()))
    arrays = [np.arange(_ROWS), np.arange(_ROWS)]

    def ask(number: int, things: int) -> object:
        query = PodQuery((PodSelector(None, label_set_selector({"a": f"{number:06}{_WIDE * min(things, _MANY)}"})),))
        return [counts.by_value(query, numbers, _ROWS) for numbers in arrays]

    return ask


def _term_sums() -> Ask:
    terms = RunningTerms()
    # Of a term that few rows have, nothing is kept; of one that no pod has any more, neither.
    for number in range(300):
        term = AffinityTerm(frozenset(), NOTHING, label_set_selector(_labels(number, 10)), "host")
        for row in range(40):
            terms.add(TermKey(term), row, 1)
    known, numbers = list(terms._counts.values()), np.arange(_ROWS)
    return lambda number, _: terms.add_by_value(known[number % 300], np.zeros(_ROWS, np.int64), numbers)


def _columns(by: str) -> Ask:
    cluster = Cluster()
    for row in range(_ROWS):
        cluster.apply_node(make_node(f"node-{row}", {"cpu": str(row)}))

    def ask(number: int, things: int) -> object:
        """Ask twice, of other nodes each time: columns are kept from the second time on."""
        cluster.apply_pod(make_pod("pod", f"node-{number % _ROWS}", requests={"cpu": f"{number}m"}))
        key = number, tuple(_labels(number, min(things, _MANY)).items())
        return [getattr(cluster.view(rows), by)(_made_up, *key) for rows in (None, np.arange(1, _ROWS))]

    return ask


def _made_up(nodes: NodeView, number: int, _: object) -> NDArray[np.float64]:
    return np.full((4, len(nodes)), float(number))


def _required(number: int, things: int) -> object:
    expressions = tuple(SelectorRequirement(_short(at), "In", (f"{number:06}", _short(at))) for at in range(things))
    required = NodeSelector((NodeSelectorTerm(expressions),))
    return required_node_affinity(PodSpec(affinity=Affinity(node_affinity=NodeAffinity(required))))


def _required_labels(number: int, things: int) -> object:
    return required_node_affinity(PodSpec(node_selector=_labels(number, things)))


def _preferred(number: int, things: int) -> object:
    expressions = (SelectorRequirement(f"a{number:06}", "Exists"),)
    preferred = tuple(PreferredSchedulingTerm(at + 1, NodeSelectorTerm(expressions)) for at in range(things))
    return preferred_node_affinity(PodSpec(affinity=Affinity(node_affinity=NodeAffinity(None, preferred))))


def _refused_pods() -> Ask:
    refused = RefusedPods(Cluster(), lambda: 0.0)
    refused.is_kept = True

    def ask(number: int, things: int) -> None:
        metadata = ObjectMeta(
            name=f"{number:06}", namespace="a", uid=f"{number:06}{_WIDE}", labels=_labels(number, things)
        )
        refused.note_withheld(objects.Pod(metadata))

    return ask


def _refused_on_unknown_nodes() -> Ask:
    cluster = Cluster()
    refused = RefusedPods(cluster, lambda: 0.0)
    refused.is_kept = True

    def ask(number: int, things: int) -> None:
        nodes = NodeFinder(cluster).named_once([f"{number:06}{name:03}{_WIDE * things}" for name in range(100)])
        refused.note(objects.Pod(ObjectMeta(name=f"{number:06}", namespace="a", uid=f"{number:06}")), nodes)

    return ask


HOSTILE: Mapping[str, Sequence[Callable[[], Ask]]] = {
    "attachment limits": [lambda: lambda number, things: limit_key(f"{number:06}{_WIDE * things}")],
    "checked requests": [
        lambda: lambda number, things: node_resources_fit._checked(_shape(number, things), frozenset(), frozenset()),
    ],
    "equality requirements": [
        lambda: lambda number, things: label_set_selector({f"{number:06}": _WIDE * things}),
    ],
    "answers with names": [_passing],
    "extended resource names": [lambda: lambda number, things: is_extended_resource(f"{number:06}/{_WIDE * things}")],
    "fields of types": [lambda: lambda number, _: moderation._names(_TYPES[number % len(_TYPES)])],
    "images by name": [_images],
    "label sets": [lambda: lambda number, things: label_set("a", _labels(number, things))],
    "log fields as JSON": [lambda: lambda number, _: logs._json_key(f"{number:06}{'a' * 64}")],
    "log fields as text": [lambda: lambda number, _: logs._text_key(f"{number:06}{'a' * 64}")],
    "log origins as JSON": [lambda: lambda number, _: logs._json_origin("info", f"{number:06}{'a' * 64}")],
    "log origins as text": [lambda: lambda number, _: logs._text_origin("info", f"{number:06}{'a' * 64}")],
    "log times": [lambda: lambda number, _: logs._second(number)],
    "times of writes": [lambda: lambda number, _: timestamps._second(number)],
    "namespaces by selector": [_selected],
    "names of nodes": [_decoded_names],
    "places of names": [_found],
    "pod affinity terms": [lambda: _terms, lambda: _term],
    "pods of calls": [_decoded_pods],
    "priorities of names": [_written],
    "preferred node affinity": [lambda: _preferred],
    "quantities": [
        lambda: lambda number, things: parse_quantity(f"{' ' * things}{number}"),
        lambda: lambda number, things: parse_quantity(f"{number}{'9' * things}"),
    ],
    "requests and ports": [
        lambda: lambda number, things: _taken(_spec_with_ports(number, things)),
        lambda: lambda number, things: _taken(_spec_with_requests(number, things)),
    ],
    "refused pods": [_refused_pods, _refused_on_unknown_nodes],
    "required node affinity": [lambda: _required, lambda: _required_labels],
    "requirements": [lambda: _values],
    "pod counts": [_pod_counts, _pod_sums],
    "resource metrics": [
        lambda: (
            lambda number, things: pod_resources._usage_of(
                Pod(spec=_spec_with_requests(number, things)), shows_pod_level=True
            )
        ),
    ],
    "results about nodes": [
        lambda: _columns("kept_by_facts"),
        lambda: _columns("kept_by_room"),
        lambda: _columns("remembered"),
    ],
    "results about owners": [_answers],
    "rows of dimensions": [
        lambda: lambda number, things: node_view._rows_of(tuple(range(1000 + number, 1000 + number + things)), 10)
    ],
    "scalar resource names": [lambda: lambda number, things: is_scalar_resource(f"{number:06}/{_WIDE * things}")],
    "spread constraints": [lambda: _spread, lambda: _spread_often, lambda: _spread_by_own_labels],
    "start times": [lambda: lambda number, things: pod_entries._started(f"{number:06}{_WIDE * things}")],
    "summed requests": [
        lambda: lambda number, things: pod_requests(_shape(number, things)),
        lambda: lambda number, things: pod_requests(_shape_of_many(number, things)),
    ],
    "sums of affinity terms": [_term_sums],
    "terms by label set": [_about],
    "texts": [lambda: lambda number, things: shared(f"{number:06}{_WIDE * things}")],
    "weighed pods": [
        lambda: lambda number, things: _weighed(_shape(number, things), things),
        lambda: lambda number, things: _weighed(_shape_of_many(number, things), things),
    ],
}
