from typing import Any

import msgspec
import pytest

from extender_service.kube.parsing.api_defaults import default_pod
from extender_service.kube.types.core import LabelSelector, Pod, SelectorRequirement

WEB = {"matchLabels": {"app": "web"}}
ROLLOUT = {"topologyKey": "zone", "labelSelector": WEB, "matchLabelKeys": ["version", "absent"]}
TENANT = {"topologyKey": "zone", "labelSelector": WEB, "mismatchLabelKeys": ["tenant"]}
ROLLED_OUT = LabelSelector({"app": "web"}, (SelectorRequirement("version", "In", ("2",)),))
OF_OTHERS = LabelSelector({"app": "web"}, (SelectorRequirement("tenant", "NotIn", ("a",)),))


def filled_in(affinity: dict[str, Any]) -> Pod:
    labels = {"app": "web", "version": "2", "tenant": "a"}
    source = msgspec.Raw(msgspec.json.encode({"metadata": {"labels": labels}, "spec": {"affinity": affinity}}))
    return default_pod(msgspec.json.decode(source, type=Pod), source)


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_keys_become_requirements_with_the_pods_own_values(kind: str) -> None:
    affinity = filled_in(
        {
            kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": [ROLLOUT, TENANT],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": ROLLOUT}],
            }
        }
    ).spec.affinity
    assert affinity is not None
    rules = affinity.pod_affinity or affinity.pod_anti_affinity
    assert rules is not None
    assert [term.label_selector for term in rules.required] == [ROLLED_OUT, OF_OTHERS]
    assert [(item.weight, item.pod_affinity_term.label_selector) for item in rules.preferred] == [(7, ROLLED_OUT)]


def test_a_term_without_a_selector_or_keys_stays_as_it_is() -> None:
    terms = [{"topologyKey": "zone", "matchLabelKeys": ["version"]}, {"topologyKey": "zone", "labelSelector": WEB}]
    affinity = filled_in({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}).spec.affinity
    assert affinity is not None
    assert affinity.pod_affinity is not None
    assert [term.label_selector for term in affinity.pod_affinity.required] == [None, LabelSelector({"app": "web"})]
    assert affinity.pod_anti_affinity is None
