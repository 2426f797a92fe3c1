import numpy as np

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.state.cluster import Cluster
from extender_service.plugins.shared.topology import all_have_label, has_label, is_present
from tests.support.objects import make_node


def test_a_node_without_the_label_has_no_number() -> None:
    assert is_present(np.array([0, 2, ABSENT, 0])).tolist() == [True, True, False, True]


def test_labels_are_looked_at_anew_when_a_node_changes() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a", labels={"zone": "1"}))
    cluster.apply_node(make_node("b"))
    assert has_label(cluster.view(None), "zone").tolist() == [True, False]
    assert not all_have_label(cluster.view(None), "zone")
    assert all_have_label(cluster.view(None).at(np.array([0])), "zone")
    cluster.apply_node(make_node("b", labels={"zone": "2"}))
    assert has_label(cluster.view(None), "zone").tolist() == [True, True]
    assert all_have_label(cluster.view(None), "zone")
