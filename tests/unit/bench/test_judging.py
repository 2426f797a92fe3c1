"""Placements are judged by kube-scheduler's own plugins, with the state that they were decided on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from bench import programs
from bench.programs import Peers
from bench.scheduler.judging import Judge
from bench.scheduler.placement_sampler import Placement
from bench.scheduler.scenes import SCENES
from bench.scheduler.stub_server import stub_site
from extender_service.config.release import OLDEST_MINOR
from tests.conformance import oracle

NODES = [f"node-{number:05}" for number in range(10)]


@pytest.fixture(scope="module")
def judge(build_go: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    build_go(programs.PEERS / "stubapi")
    build_go(oracle.ORACLE)
    directory = tmp_path_factory.mktemp("judging")
    scene = SCENES["churn"](10, 20)
    with stub_site(Peers(directory), directory, scene) as site, site() as server:
        yield Judge(server, scene, OLDEST_MINOR)


def judged(judge: Judge, directory: Path, *placements: Placement) -> tuple[int, list[str]]:
    file = directory / "placements.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in placements))
    return judge.judge(file)


def placement(node: str, *, counted: dict[str, str], nodes: list[str] = NODES) -> Placement:
    return Placement("default/pod-00000", node, "", counted, nodes)


def test_an_empty_node_is_right_and_a_busier_one_is_worse(judge: Judge, tmp_path: Path) -> None:
    busy = {f"default/pod-{number:05}": "node-00003" for number in range(1, 6)}
    count, wrong = judged(judge, tmp_path, placement("node-00004", counted=busy), placement("node-00003", counted=busy))
    assert count == 2
    [why] = wrong
    assert why.startswith("default/pod-00000 was put on node-00003: ")


def test_only_nodes_that_were_there_count_also_those_that_come_and_go(judge: Judge, tmp_path: Path) -> None:
    alone = placement("node-churn", counted={}, nodes=["node-churn"])
    gone = placement("node-00001", counted={}, nodes=["node-00002"])
    count, [why] = judged(judge, tmp_path, alone, gone)
    assert count == 2
    assert "node-00001, which fails" in why
