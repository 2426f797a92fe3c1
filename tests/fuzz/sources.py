"""Where requests come from; each source is a strategy, so that hypothesis makes what it finds smaller."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.fuzz.bodies import Call, all_calls, binding
from tests.fuzz.cluster import FuzzedCluster, Object
from tests.fuzz.heads import odd_requests
from tests.fuzz.mutation import mutate_bytes, mutate_json
from tests.fuzz.objects import TYPES, arguments
from tests.fuzz.requests import VERBS, Request, Verb
from tests.fuzz.run import Source, Volley
from tests.fuzz.stub_api import StubApi

DESCRIPTION = Path(__file__).parents[2] / "openapi" / "extender-v1.yaml"

Volleys = st.SearchStrategy[Volley]
_MOST_AT_ONCE = 6


def all_sources(cluster: FuzzedCluster, api: StubApi, covering: Sequence[Request]) -> list[Source]:
    """All of them; `covering` are inputs that reach much of the code."""
    calls = all_calls(cluster)
    return [
        Source("schemathesis", 0.04, _described()),
        Source("hypothesis: types", 0.14, _typed(cluster)),
        Source("hypothesis: structure", 0.26, _restructured(calls)),
        Source("bytes", 0.30, _mutated(calls)),
        Source("HTTP", 0.12, _misspoken(calls)),
        Source("binding", 0.04, _bound(cluster, api)),
        Source("coverage", 0.10, _replayed(covering)),
    ]


def _described() -> Volleys:
    """Bodies that the OpenAPI description allows, and such that it does not: schemathesis."""
    schema = schemathesis.openapi.from_path(DESCRIPTION)
    bodies: list[Volleys] = []
    for verb in ("filter", "preempt", "bind"):
        operation = schema[f"/{verb}"]["POST"]
        bodies += [operation.as_strategy(generation_mode=mode).map(_as_described) for mode in GenerationMode]
    return st.one_of(bodies)


def _as_described(case: schemathesis.Case[Any]) -> Volley:
    body = case.body if isinstance(case.body, bytes) else _encode(case.body)
    # Generating one takes long, and two verbs take the same.
    return [Request.call(verb, body) for verb in VERBS if TYPES[verb] is TYPES[_verb(case.path)]]


def _verb(path: str) -> Verb:
    return next(verb for verb in VERBS if path == f"/{verb}")


def _typed(cluster: FuzzedCluster) -> Volleys:
    """Arguments made from their types: hypothesis."""
    names = (
        *cluster.node_names[:6],
        *(pod["metadata"]["uid"] for pod in cluster.running[:3]),
        "app",
        "web",
        "cpu",
        "memory",
        "disk",
        "zone",
    )
    requests = st.sampled_from(VERBS).flatmap(
        lambda verb: arguments(verb, names).map(lambda args: Request.call(verb, _encode(args)))
    )
    return st.lists(requests, min_size=1, max_size=_MOST_AT_ONCE)


def _restructured(calls: Sequence[Call]) -> Volleys:
    """Bodies in which values are others, twice, elsewhere or gone."""
    args = [call.args for call in calls]

    def changed(call: Call, random: Random) -> Request:
        return Request.call(call.verb, _encode(mutate_json(random, call.args, args)))

    return st.lists(st.builds(changed, st.sampled_from(calls), _randoms()), min_size=1, max_size=_MOST_AT_ONCE)


def _mutated(calls: Sequence[Call]) -> Volleys:
    """Bodies with bytes flipped, cut, doubled, put in or spliced."""
    bodies = [call.body for call in calls]

    def mutate(at: int, random: Random) -> Request:
        return Request.call(calls[at].verb, mutate_bytes(random, bodies[at], bodies))

    return st.lists(st.builds(mutate, st.integers(0, len(calls) - 1), _randoms()), min_size=1, max_size=_MOST_AT_ONCE)


def _bound(cluster: FuzzedCluster, api: StubApi) -> Volleys:
    """Pods that wait are bound, now and then while they are asked about."""

    def calls(pending: Object, node: str, verb: Verb) -> Volley:
        pod = api.pod(pending["metadata"]["namespace"], pending["metadata"]["name"]) or pending
        args = binding(pod, node) if verb == "bind" else {"Pod": pod, "NodeNames": cluster.node_names}
        return [Request.call("bind", _encode(binding(pod, node))), Request.call(verb, _encode(args))]

    return st.builds(
        calls,
        st.sampled_from(cluster.pending),
        st.sampled_from(cluster.node_names),
        st.sampled_from(("filter", "prioritize", "bind")),
    )


def _misspoken(calls: Sequence[Call]) -> Volleys:
    """HTTP that is not what it should be."""
    return st.lists(odd_requests([Request.call(call.verb, call.body) for call in calls]), min_size=1, max_size=2)


def _replayed(requests: Sequence[Request]) -> Volleys:
    """Requests as they are."""
    return st.lists(st.sampled_from(requests), min_size=1, max_size=_MOST_AT_ONCE)


def _randoms() -> st.SearchStrategy[Random]:
    return st.randoms(use_true_random=False)


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
