import numpy as np

from extender_service.plugins.shared.shape import broken_linear
from extender_service.plugins.volume_binding.scoring import utilization_score
from extender_service.plugins.volume_binding.static_binding import UNBOUND, StaticBindings
from tests.support.go_integers import quotient, wrapped
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


def test_sizes_whose_hundredfold_is_beyond_int64_score_as_in_go() -> None:
    # Asked for: 82 Pi, times 100 a negative number; 170 Pi, times 100 one that is below 100 times what there is.
    claims = [make_claim("c", size="82Pi"), make_claim("d", size="170Pi")]
    volumes = [make_volume("v", size="82Pi"), make_volume("w", size="4Ei", class_name="b")]
    for claim, number in zip(claims, (0, 1), strict=True):
        bindings = StaticBindings([claim], volumes, [np.array([number])])
        expected = quotient(wrapped([82, 170][number] * 2**50 * 100), [82, 4096][number] * 2**50)
        assert utilization_score(bindings, FULLER_IS_BETTER).tolist() == [max(expected, 0)]
