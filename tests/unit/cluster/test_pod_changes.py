from extender_service.cluster.label_sets import LabelSet
from extender_service.cluster.pod_changes import MOST_CHANGES, PodChange, PodChanges


def change(row: int) -> PodChange:
    return PodChange(LabelSet("shop", {}), row, 1, is_terminating=False)


def test_changes_are_told_from_a_point_on() -> None:
    changes = PodChanges()
    changes.append(change(1))
    seen = changes.count
    changes.append(change(2))
    changes.append(change(3))
    assert changes.since(seen) == [change(2), change(3)]
    assert changes.since(changes.count) == []


def test_only_so_many_changes_are_remembered() -> None:
    changes = PodChanges()
    for row in range(10 * MOST_CHANGES):
        changes.append(change(row))
        assert len(changes._changes) <= 2 * MOST_CHANGES
        told = changes.since(max(0, changes.count - MOST_CHANGES))
        assert told is not None
        assert told[-1] == change(row)
    assert changes.since(changes.count - MOST_CHANGES - 1) is None
