import numpy as np

from extender_service.cluster.labels import ABSENT
from extender_service.plugins.topology import is_present, sum_by_value


def test_amounts_are_added_up_by_value_and_nodes_without_one_count_nowhere() -> None:
    numbers = np.array([0, 2, ABSENT, 0])
    sums = sum_by_value(numbers, np.array([1, 10, 100, 1000]), 3)
    assert sums.tolist() == [1001, 0, 10, 0]
    assert sums[numbers].tolist() == [1001, 10, 0, 1001]
    assert is_present(numbers).tolist() == [True, True, False, True]
