from extender_service.cluster.structures.change_log import MOST_CHANGES, MOST_LARGE_BYTES, ChangeLog


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


def test_of_changes_that_refer_to_much_fewer_are_kept() -> None:
    changes: ChangeLog[int] = ChangeLog()
    large = MOST_LARGE_BYTES // 8
    for number in range(50):
        seen = changes.count
        changes.append_large(large + number, large + number)
        assert changes.since(seen) == [large + number]
        assert sum(changes._changes) <= MOST_LARGE_BYTES
    assert changes.since(changes.count - 3) is not None
    assert changes.since(changes.count - 8) is None


def test_large_changes_do_not_count_any_more_once_they_are_forgotten() -> None:
    changes: ChangeLog[int] = ChangeLog()
    for number in range(10 * MOST_CHANGES):
        if number % 100:
            changes.append(0)
        else:
            changes.append_large(MOST_LARGE_BYTES // 30, MOST_LARGE_BYTES // 30)
        assert changes._large_bytes == sum(changes._changes)
    assert changes.since(changes.count - MOST_CHANGES) is not None
    changes.append_large(2 * MOST_LARGE_BYTES, 2 * MOST_LARGE_BYTES)
    changes.append(1)
    assert changes.since(changes.count - 1) == [1]
    assert changes.since(changes.count - 2) is None
