import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from examples.plugins.gpu_packing import GpuPacking, GpuPackingArgs, RequestSize
from extender_service.plugin_api import Node, Pod
from extender_service.testing import Trial, make_node, make_pod

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int = 8) -> Node:
    return make_node(name, {"cpu": "64", "pods": "110", GPU: gpus})


def pod(name: str, gpus: int, node_name: str = "") -> Pod:
    return make_pod(name, {GPU: gpus} if gpus else {"cpu": "1"}, namespace="ml", node_name=node_name)


def with_free(**free: int) -> Trial:
    """Return nodes of eight GPUs; `free` is the number of free ones by node name."""
    running = [pod(f"on-{name}", 8 - count, name) for name, count in free.items() if count < 8]
    return Trial([node(name) for name in free], running)


def best(trial: Trial, gpus: int, args: GpuPackingArgs | None = None) -> list[str]:
    scores = trial.scores(GpuPacking(args or GpuPackingArgs(), trial.handle), pod("next", gpus))
    return [name for name, score in scores.items() if score == max(scores.values())]


@pytest.mark.parametrize(
    ("gpus", "free", "expected"),
    [
        (1, {"whole": 8, "half": 4, "odd": 3}, "odd"),
        (1, {"whole": 8, "seven": 7, "last": 1}, "last"),
        (1, {"whole": 8, "half": 4}, "half"),
        (2, {"whole": 8, "half": 4, "pair": 2}, "pair"),
        (2, {"whole": 8, "seven": 7, "half": 4}, "seven"),
        (4, {"whole": 8, "half": 4}, "half"),
    ],
)
def test_what_is_left_stays_usable(gpus: int, free: dict[str, int], expected: str) -> None:
    assert best(with_free(**free), gpus) == [expected]


def test_what_is_usable_depends_on_what_pods_usually_request() -> None:
    trial = with_free(five=5, six=6)
    threes = GpuPackingArgs(request_sizes=(RequestSize(gpus=3),))
    mostly_fours = GpuPackingArgs(request_sizes=(RequestSize(gpus=3), RequestSize(gpus=4, weight=9)))
    assert best(trial, 2, threes) == ["five"]
    assert best(trial, 2, mostly_fours) == ["six"]


def test_pods_without_gpus_are_left_alone() -> None:
    trial = with_free(whole=8, half=4)
    assert trial.scores(GpuPacking(GpuPackingArgs(), trial.handle), pod("web", 0)) == {}


@settings(max_examples=30)
@given(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=20))
def test_small_jobs_leave_as_many_whole_nodes_as_can_be(jobs: list[int]) -> None:
    """Sizes that are powers of two fill gaps exactly. So without deletions, no job splits a whole node without need."""
    trial = Trial([node(f"node-{number}") for number in range(10)])
    plugin = GpuPacking(GpuPackingArgs(), trial.handle)
    dimension = trial.cluster.view(None).dimension(GPU)
    for number, gpus in enumerate(jobs):
        view = trial.cluster.view(None)
        free = dict(zip(view.names, view.allocatable(dimension) - view.requested(dimension), strict=True))
        scores = trial.scores(plugin, pod("next", gpus))
        node_name = max((name for name in scores if free[name] >= gpus), key=lambda name: scores[name])
        trial.cluster.apply_pod(pod(f"job-{number}", gpus, node_name))
    in_use = trial.cluster.view(None).requested(dimension)
    assert np.count_nonzero(in_use) == -(-sum(jobs) // 8)


@pytest.mark.parametrize(
    "args",
    [{"requestSizes": []}, {"requestSizes": [{"gpus": 0}]}, {"requestSizes": [{"gpus": 1, "weight": 0}]}, {"size": 1}],
)
def test_arguments_that_make_no_sense_are_refused(args: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(GpuPackingArgs).validate_python(args)
