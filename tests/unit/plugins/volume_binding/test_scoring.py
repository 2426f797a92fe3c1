import numpy as np

from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.kube.types.core import LabelSelector
from extender_service.kube.types.storage import PersistentVolumeClaim
from extender_service.plugins.shared.shape import broken_linear
from extender_service.plugins.volume_binding.scoring import capacity_score, utilization_score
from extender_service.plugins.volume_binding.static_binding import UNBOUND, StaticBindings
from tests.support.clusters.volume_worlds import storage_cluster
from tests.support.go_integers import quotient, wrapped
from tests.support.objects import make_node
from tests.support.storage_objects import make_capacity, make_claim, make_class, make_driver, make_volume

CSI = "csi.example.com"
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


def test_where_volumes_are_made_nodes_score_by_the_share_that_is_asked_of_what_there_is() -> None:
    storage: list[StorageObject] = [
        make_driver(CSI, storage_capacity=True),
        make_class("x", CSI),
        make_class("y", CSI),
        make_capacity("x-in-a", "x", "10Gi", LabelSelector({"zone": "a"})),
        make_capacity("x-in-b", "x", "100Gi", LabelSelector({"zone": "b"})),
        make_capacity("y-in-b", "y", "8Gi", LabelSelector({"zone": "b"})),
    ]
    nodes = [make_node(zone, labels={"zone": zone}) for zone in "ab"]
    cluster = storage_cluster(nodes, storage)

    def score(*claims: PersistentVolumeClaim) -> list[int]:
        scores: list[int] = capacity_score(cluster.view(None), cluster.storage, claims, FULLER_IS_BETTER).tolist()
        return scores

    assert score(make_claim("c", class_name="x", size="5Gi")) == [50, 5]
    # Two claims of a class share what there is; two classes count alike, and one without room there as full.
    assert score(*(make_claim(name, class_name="x", size="5Gi") for name in "cd")) == [100, 10]
    assert score(make_claim("c", class_name="x", size="5Gi"), make_claim("d", class_name="y", size="2Gi")) == [75, 15]
    assert score(make_claim("c", class_name="x", size=None)) == [0, 0]
    assert score() == [0, 0]
