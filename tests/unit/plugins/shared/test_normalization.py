import numpy as np
import pytest

from extender_service.plugins.shared.normalization import scale_to_max


@pytest.mark.parametrize(
    ("scores", "scaled", "reversed_"),
    [
        ([], [], []),
        ([0, 0], [0, 0], [100, 100]),
        ([1], [100], [0]),
        ([1, 2, 3], [33, 66, 100], [67, 34, 0]),
        ([0, 7, 200], [0, 3, 100], [100, 97, 0]),
        ([2**50, 2**51], [50, 100], [50, 0]),
        ([255, 100, 0], [100, 39, 0], [0, 61, 100]),
        ([256, 100, 0], [100, 39, 0], [0, 61, 100]),
        ([-300, 3], [-10000, 100], [10100, 0]),
        ([1000, -5, 0], [100, 0, 0], [0, 100, 100]),
        ([1000, -11, 10], [100, -1, 1], [0, 101, 99]),
    ],
)
def test_the_highest_becomes_100_or_0(scores: list[int], scaled: list[int], reversed_: list[int]) -> None:
    array = np.array(scores, np.int64)
    assert scale_to_max(array).tolist() == scaled
    assert scale_to_max(array, reverse=True).tolist() == reversed_
    assert array.tolist() == scores
