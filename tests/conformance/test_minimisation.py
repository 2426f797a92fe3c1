from collections.abc import Sequence
from typing import Any

from tests.conformance.minimisation import Draft, minimise


def test_only_what_makes_the_difference_is_left() -> None:
    draft: Draft = {
        "name": "case",
        "config": {"profiles": []},
        "objects": [
            {"kind": "Node", "metadata": {"name": "a", "labels": {"zone": "1"}}, "spec": {"unschedulable": True}},
            {"kind": "Node", "metadata": {"name": "b"}, "spec": {}},
        ],
        "pod": {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"priority": 3, "nodeName": "x"}},
    }

    def differs(drafts: Sequence[Draft]) -> list[bool]:
        return [_has_cordoned_node(each) and each["pod"]["spec"].get("priority") == 3 for each in drafts]

    assert minimise(draft, differs) == {
        "name": "case",
        "objects": [{"kind": "Node", "metadata": {"name": "a"}, "spec": {"unschedulable": True}}],
        "pod": {"metadata": {"name": "web"}, "spec": {"priority": 3}},
    }


def _has_cordoned_node(draft: dict[str, Any]) -> bool:
    return any(item["spec"].get("unschedulable") for item in draft["objects"])
