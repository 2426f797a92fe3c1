import numpy as np

from extender_service.plugins.shared.shape import broken_linear
from extender_service.plugins.volume_binding.scoring import utilization_score
from extender_service.plugins.volume_binding.static_binding import UNBOUND, StaticBindings
from tests.support.storage_objects import make_claim, make_volume

FULLER_IS_BETTER = broken_linear([(0, 0), (100, 100)])


def test_nodes_score_by_the_share_that_is_asked_of_their_volumes() -> None:
    bindings = StaticBindings(
        [make_claim("c", size="1Gi"), make_claim("d", size="2Gi")],
        [
            make_volume("small", size="2Gi", class_name="local"),
            make_volume("large", size="8Gi", class_name="local"),
            make_volume("fast", size="4Gi", class_name="fast"),
        ],
        [np.array([0, 1, 0, UNBOUND]), np.array([1, UNBOUND, 2, UNBOUND])],
    )
    # One class: 3 of 10, 1 of 8; two classes: the mean of 1 of 2 and 2 of 4; no volume.
    assert utilization_score(bindings, FULLER_IS_BETTER).tolist() == [30, 12, 50, 0]


def test_the_mean_is_rounded_half_up() -> None:
    bindings = StaticBindings(
        [make_claim("c", size="1Gi"), make_claim("d", size="1Gi")],
        [make_volume("v", size="2Gi", class_name="a"), make_volume("w", size="100Gi", class_name="b")],
        [np.array([0]), np.array([1])],
    )
    assert utilization_score(bindings, FULLER_IS_BETTER).tolist() == [26]


def test_a_volume_of_no_size_is_full() -> None:
    bindings = StaticBindings([make_claim("c", size="0")], [make_volume("v", size="0")], [np.array([0])])
    assert utilization_score(bindings, FULLER_IS_BETTER).tolist() == [100]
