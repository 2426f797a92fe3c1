from extender_service.cluster.structures.change_log import MOST_CHANGES, ChangeLog


def test_changes_are_told_from_a_point_on() -> None:
    changes: ChangeLog[int] = ChangeLog()
    changes.append(1)
    seen = changes.count
    changes.append(2)
    changes.append(3)
    assert changes.since(seen) == [2, 3]
    assert changes.since(changes.count) == []


def test_only_so_many_changes_are_remembered() -> None:
    changes: ChangeLog[int] = ChangeLog()
    for row in range(10 * MOST_CHANGES):
        changes.append(row)
        assert len(changes._changes) <= 2 * MOST_CHANGES
        told = changes.since(max(0, changes.count - MOST_CHANGES))
        assert told is not None
        assert told[-1] == row
    assert changes.since(changes.count - MOST_CHANGES - 1) is None


def test_who_asks_now_and_then_misses_nothing_and_who_asks_too_seldom_is_told_so() -> None:
    changes: ChangeLog[int] = ChangeLog()
    seldom, seen = changes.count, changes.count
    for row in range(7 * MOST_CHANGES):
        changes.append(row)
        if row % 1000 == 999:
            assert changes.since(seen) == list(range(row - 999, row + 1))
            seen = changes.count
        if row >= MOST_CHANGES:
            assert changes.since(seldom) is None
