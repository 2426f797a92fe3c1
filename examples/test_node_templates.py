from pathlib import Path

import pytest

from examples import node_templates
from extender_service.testing import make_node
from tests.support.event_loop import in_event_loop

TEMPLATES = Path(__file__).parent / "node-templates.yaml"


def pending(name: str, limits: str) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  tolerations: [{{key: nvidia.com/gpu, operator: Exists}}]
  containers: [{{name: c, resources: {{limits: {{{limits}}}}}}}]
---
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    trained = [pending(f"training-{number}", 'nvidia.com/gpu: "8"') for number in range(2)]
    file.write_text("".join([*trained, pending("web", 'cpu: "12"')]))
    return file


@in_event_loop
async def test_nodes_are_added_until_another_one_has_no_use(cluster: Path) -> None:
    template = make_node("gpu", {"cpu": "64", "pods": 110, "nvidia.com/gpu": 8})
    answer = await node_templates.ask(template, [cluster])
    assert answer == ("gpu", 2, ["default/training-0", "default/training-1", "default/web"], {})


@in_event_loop
async def test_pods_that_the_template_does_not_help_say_why(cluster: Path) -> None:
    answer = await node_templates.ask(make_node("general", {"cpu": "16", "pods": 110}), [cluster])
    assert (answer.nodes, answer.unblocked) == (1, ["default/web"])
    assert answer.refusals == {
        "default/training-0": "Insufficient nvidia.com/gpu",
        "default/training-1": "Insufficient nvidia.com/gpu",
    }


def test_it_prints_an_answer_for_each_template(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["", "--cluster-file", str(cluster), "--templates", str(TEMPLATES)])
    node_templates.main()
    assert capsys.readouterr().out.splitlines() == [
        "general: 1 nodes unblock default/web",
        "  default/training-0: Insufficient nvidia.com/gpu",
        "  default/training-1: Insufficient nvidia.com/gpu",
        "gpu: 2 nodes unblock default/training-0, default/training-1, default/web",
    ]
