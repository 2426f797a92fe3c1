import json
from typing import Any

import msgspec
import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.wire.decoding import ArgsDecoder
from extender_service.extender.wire.nodes_args import ExtenderArgsDecoder
from extender_service.extender.wire.request_limits import (
    MOST_ITEMS,
    MOST_NODES,
    MOST_RESOURCES,
    MOST_SELECTOR_VALUES,
    require_few_values,
    require_moderate_pod,
)
from extender_service.extender.wire.requested_nodes import RequestedNodes
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.types.core import Pod
from extender_service.kube.types.extender_api import ExtenderPreemptionArgs
from extender_service.scheduling.asked_nodes import NodeFinder

decoder = ExtenderArgsDecoder()


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": spec}


def decoded(pod: object, names: object = ("a",)) -> Any:
    return decoder.decode(json.dumps({"Pod": pod, "NodeNames": names}).encode())


def requests(count: int) -> list[dict[str, object]]:
    """Containers that request so many resources, ten each."""
    names = [f"example.com/{number}" for number in range(count)]
    return [{"resources": {"requests": dict.fromkeys(names[at : at + 10], "1")}} for at in range(0, count, 10)]


def node_affinity(values: int) -> dict[str, Any]:
    expression = {"key": "zone", "operator": "In", "values": [str(value) for value in range(values)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}, expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


TERM = "Pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
IMMODERATE = {
    f"Pod.spec.tolerations has {MOST_ITEMS + 1} items, of which {MOST_ITEMS} are the most": pod(
        tolerations=[{"key": f"key-{number}"} for number in range(MOST_ITEMS + 1)]
    ),
    f"Pod.metadata.labels has {MOST_ITEMS + 1} items, of which {MOST_ITEMS} are the most": {
        "metadata": {"labels": {f"key-{number}": "value" for number in range(MOST_ITEMS + 1)}}
    },
    f"Pod.spec.containers request {MOST_RESOURCES + 10} resources, of which {MOST_RESOURCES} are the most": pod(
        containers=requests(MOST_RESOURCES + 10), schedulingGates=[{"name": 400 * "x"}] * 50
    ),
    f"{TERM}.matchExpressions[1].values has {MOST_SELECTOR_VALUES + 1} items": pod(
        affinity=node_affinity(MOST_SELECTOR_VALUES + 1)
    ),
    "Pod.spec.schedulerName has 600002 bytes; 524288 are the most for all": pod(schedulerName=600_000 * "x"),
    "Pod has 5000054 bytes, of which 4194304 are the most": pod(unknown=5_000_000 * "x"),
}


@pytest.mark.parametrize("says", IMMODERATE)
def test_a_pod_that_no_cluster_has_is_refused_with_the_field(says: str) -> None:
    with pytest.raises(DecodeError) as error:
        decoded(IMMODERATE[says])
    assert str(error.value).startswith(says)


@pytest.mark.parametrize("says", list(IMMODERATE)[:-1])
def test_the_same_with_whole_nodes_or_other_names_of_fields(says: str) -> None:
    for body in ({"Pod": IMMODERATE[says], "Nodes": {"items": []}}, {"pod": IMMODERATE[says], "nodenames": ["a"]}):
        with pytest.raises(DecodeError) as error:
            decoder.decode(json.dumps(body).encode())
        assert str(error.value).startswith(says)


@pytest.mark.parametrize(
    "of",
    [
        pod(tolerations=[{"key": f"key-{number}"} for number in range(MOST_ITEMS)]),
        pod(affinity=node_affinity(MOST_SELECTOR_VALUES)),
        pod(containers=requests(MOST_RESOURCES)),
        pod(containers=[{"env": [{"name": "DATA", "value": 3_000_000 * "x"}]}]),
    ],
    ids=["tolerations", "values", "resources", "what scheduling does not read"],
)
def test_large_pods_are_decided_about(of: dict[str, Any]) -> None:
    args = decoded(of)
    require_moderate_pod(args.pod)
    assert args.pod == Decoder(Pod).decode(json.dumps(of).encode())


def test_what_is_wrong_in_a_large_body_is_named() -> None:
    with pytest.raises(DecodeError, match=r"^Pod: Expected `int`, got `str` - at `\$.spec.priority`$"):
        decoded(pod(priority="high", unknown=2_000_000 * "x"))


def test_a_large_body_may_have_its_fields_in_any_case_and_nulls() -> None:
    body = {"pod": pod(affinity=None, unknown=2_000_000 * "x"), "nodes": None, "nodenames": ["a"]}
    args = decoder.decode(json.dumps(body).encode())
    assert args.pod == Pod(msgspec.structs.replace(Pod().metadata, name="web"))
    assert args.node_names == ["a"]


@pytest.mark.parametrize("field", ["NodeNames", "nodenames"])
def test_more_names_than_any_cluster_has_nodes_are_refused(field: str) -> None:
    body = {"Pod": pod(), field: ["a"] * (MOST_NODES + 1)}
    with pytest.raises(DecodeError, match=f"^NodeNames has {MOST_NODES + 1} items"):
        decoder.decode(json.dumps(body).encode())
    with pytest.raises(DecodeError, match=r"^N?n?odeN?n?ames has 9\d+ bytes, of which 4194304 are the most"):
        decoder.decode(json.dumps({"Pod": pod(), field: [1000 * "a"] * 9_000}).encode())


def test_a_large_preemption_with_a_small_pod_is_decided_about() -> None:
    victims = {f"node-{number}": {"Pods": [{"UID": f"uid-{number}"}]} for number in range(40_000)}
    body = {"Pod": pod(), "NodeNameToMetaVictims": victims}
    args = ArgsDecoder(ExtenderPreemptionArgs).decode(json.dumps(body).encode())
    assert args.node_name_to_meta_victims is not None
    assert len(args.node_name_to_meta_victims) == 40_000


def test_a_body_of_values_alone_is_refused_before_it_is_decoded() -> None:
    require_few_values(b"," * 1_000_000)
    with pytest.raises(DecodeError, match=r"^the body has 16000000 values, of which 8000000 are the most"):
        require_few_values(b"," * 16_000_000)


def test_more_nodes_than_any_cluster_has_are_refused() -> None:
    cluster = Cluster()
    finder = RequestedNodes(cluster, NodeFinder(cluster))
    with pytest.raises(DecodeError, match=f"^Nodes.items has {MOST_NODES + 1} items"):
        finder.find(decoder.decode(json.dumps({"Pod": pod(), "Nodes": {"items": [{}] * (MOST_NODES + 1)}}).encode()))
    nodes = {"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "unknown": 5_000_000 * "x"}]}
    with pytest.raises(DecodeError, match=r"^Nodes.items\[1\] has 5000042 bytes, of which 4194304 are the most"):
        finder.find(decoder.decode(json.dumps({"Pod": pod(), "Nodes": nodes}).encode()))
