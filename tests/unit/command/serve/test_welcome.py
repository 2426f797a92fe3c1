import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.serve.welcome import welcome
from tests.support.clusters.extender_world import ExtenderWorld
from tests.support.objects import make_node, make_pod

URL = "http://127.0.0.1:8888"
DEMO = Path(__file__).parents[4] / "examples" / "demo-cluster.yaml"


def commands(text: str) -> list[tuple[str, bytes]]:
    """(verb, body) of each curl command, as a shell reads it."""
    found = []
    for line in text.splitlines():
        if line.startswith("curl "):
            program, silent, url, data, body = shlex.split(line)
            assert (program, silent, data) == ("curl", "-s", "-d")
            assert url.startswith(f"{URL}/")
            found.append((url.removeprefix(f"{URL}/"), body.encode()))
    return found


@pytest.fixture(scope="module")
def demo() -> tuple[ClusterFile, Cluster]:
    cluster = Cluster()
    files = ClusterFile(cluster, [DEMO])
    files.load()
    return files, cluster


def answers(files: ClusterFile) -> list[tuple[str, Any]]:
    """What a service on the same files answers to the commands, one after another."""
    world = ExtenderWorld(is_live=False)
    for node in files.nodes:
        world.cluster.apply_node(node)
    for pod in files.pods:
        world.cluster.apply_pod(pod)
        world.pods.put(pod)

    async def calls() -> list[tuple[str, Any]]:
        answered = []
        for verb, body in commands(welcome(URL, files.nodes, files.pods)):
            answer = await world.post(verb, body)
            assert answer.status_code == 200
            answered.append((verb, answer.json()))
        return answered

    return asyncio.run(calls())


def test_the_demo_shows_every_verb_with_an_answer_worth_reading(demo: tuple[ClusterFile, Cluster]) -> None:
    by_verb: dict[str, list[Any]] = {}
    for verb, answer in answers(demo[0]):
        by_verb.setdefault(verb, []).append(answer)
    assert set(by_verb) == {"filter", "prioritize", "preempt", "bind"}
    for answer in by_verb["filter"]:
        assert answer["Error"] == ""
        assert answer["NodeNames"]
        assert {**answer["FailedNodes"], **answer["FailedAndUnresolvableNodes"]}
    assert len({priority["Score"] for priority in by_verb["prioritize"][0]}) > 1
    assert by_verb["preempt"][0]["NodeNameToMetaVictims"]
    assert by_verb["bind"] == [{"Error": ""}]


def test_commands_leave_out_what_says_nothing(demo: tuple[ClusterFile, Cluster]) -> None:
    for _, body in commands(welcome(URL, demo[0].nodes, demo[0].pods)):
        assert "null" not in body.decode()
        pod = json.loads(body).get("Pod", {})
        assert all(pod.get("spec", {"": 1}).values())


def test_names_that_a_shell_would_read_otherwise() -> None:
    pod = make_pod('it\'s $HOME; `rm` "x"')
    ((verb, body), *_) = commands(welcome(URL, [make_node("a")], [pod]))
    assert verb == "filter"
    assert json.loads(body)["Pod"]["metadata"]["name"] == pod.metadata.name


@pytest.mark.parametrize(("shows_certificate", "own"), [(False, ""), (True, " --cert client.crt --key client.key")])
def test_over_tls_curl_is_told_whom_to_trust_and_what_to_show(shows_certificate: bool, own: str) -> None:
    url = URL.replace("http:", "https:")
    text = welcome(url, [make_node("a")], [make_pod("web")], shows_certificate=shows_certificate)
    assert f"\ncurl -s --cacert ca.crt{own} {url}/filter -d " in text


@pytest.mark.parametrize(
    ("nodes", "pods"),
    [([], []), ([make_node("a")], []), ([], [make_pod("web")]), ([make_node("a")], [make_pod("web", "a")])],
)
def test_without_nodes_or_waiting_pods_there_is_nothing_to_try(nodes: Any, pods: Any) -> None:
    text = welcome(URL, nodes, pods)
    assert URL in text
    assert commands(text) == []


def test_without_pods_of_less_priority_nothing_is_preempted() -> None:
    verbs = [verb for verb, _ in commands(welcome(URL, [make_node("a")], [make_pod("web"), make_pod("old", "a")]))]
    assert verbs == ["filter", "prioritize", "bind"]
