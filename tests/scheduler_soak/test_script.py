"""The script depends on its seed alone, and every object that it names is there at that time."""

from collections import Counter

from tests.scheduler_soak.script import Change, Size, write_script

SIZE = Size(seconds=120.0)


def test_a_seed_gives_one_script() -> None:
    assert write_script(SIZE, 1) == write_script(SIZE, 1)
    assert write_script(SIZE, 1) != write_script(SIZE, 2)


def test_changes_come_in_the_order_of_their_times_and_end_in_time() -> None:
    times = [change.at_seconds for change in write_script(SIZE, 1).changes]
    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] < SIZE.seconds


def test_only_what_is_there_changes_or_goes() -> None:
    script = write_script(SIZE, 1)
    there = {(found["kind"], found["metadata"]["name"]) for found in [*script.basis, *script.standing_pods]}
    for change in script.changes:
        key = change.kind, change.name
        assert (key in there) is (change.method != "POST"), change
        if change.method == "POST":
            there.add(key)
        elif change.method == "DELETE":
            there.remove(key)


def test_gates_go_and_nodes_are_as_they_were_before_they_change_again() -> None:
    changes = write_script(SIZE, 1).changes
    gated = {change.name for change in changes if "schedulingGates" in change.body.get("spec", ())}
    freed = {change.name for change in changes if change.method == "PATCH" and change.name in gated}
    assert len(freed) > 10
    cordons = Counter[str]()
    for change in changes:
        if "unschedulable" in change.body.get("spec", ()):
            cordons[change.name] += 1 if change.body["spec"]["unschedulable"] else -1
            assert 0 <= cordons[change.name] <= 1


def test_there_are_as_many_pods_as_asked_for() -> None:
    created = sum(_creates_pod(change) for change in write_script(SIZE, 1).changes)
    assert 0.8 < created / (SIZE.seconds * SIZE.pods_a_second) < 1.2


def test_the_pods_left_are_those_that_came_and_did_not_go() -> None:
    script = write_script(SIZE, 1)
    left = script.pods_left()
    assert {"never-0", "gated-0"} <= left
    for change in script.changes:
        assert not (change.method == "DELETE" and change.name in left)
    created = sum(_creates_pod(change) for change in script.changes)
    deleted = sum(change.method == "DELETE" and change.kind == "Pod" for change in script.changes)
    assert len(left) == len(script.standing_pods) + created - deleted


def _creates_pod(change: Change) -> bool:
    return change.method == "POST" and change.kind == "Pod"
