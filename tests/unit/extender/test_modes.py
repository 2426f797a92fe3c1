import numpy as np

from extender_service.extender.modes import MAX_PRIORITY, POLICIES


def test_beside_kube_scheduler_its_victims_and_its_judgement_of_other_fields_stand() -> None:
    beside = POLICIES["beside"]
    assert (beside.chooses_node, beside.agrees_on_victims, beside.refuses_unsupported) == (False, True, False)


def test_in_place_of_kube_scheduler_nothing_else_judges() -> None:
    replace = POLICIES["replace"]
    assert (replace.chooses_node, replace.agrees_on_victims, replace.refuses_unsupported) == (True, False, True)


def test_beside_other_scores_totals_are_scaled_also_where_no_plugin_scores() -> None:
    totals = np.array([0, 149, 150, 3000], np.int64)
    assert POLICIES["beside"].priorities(totals, 3000).tolist() == [0, 0, 1, MAX_PRIORITY]
    assert POLICIES["beside"].priorities(np.zeros(2, np.int64), 0).tolist() == [0, 0]


def test_totals_that_stand_alone_are_not_scaled() -> None:
    totals = np.array([0, 149, 3000], np.int64)
    assert POLICIES["replace"].priorities(totals, 3000).tolist() == [0, 149, 3000]
