from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.timeline import Timeline


def passed(clocks: MachineClocks, timeline: Timeline, seconds: float) -> tuple[float, float, float]:
    """By how much the monotonic, the boot and the wall clock move on in so much of the world's time."""
    before = clocks.monotonic(), clocks.boot(), clocks.wall()
    timeline.now += seconds
    after = clocks.monotonic(), clocks.boot(), clocks.wall()
    return tuple(round(new - old, 6) for old, new in zip(before, after, strict=True))  # type: ignore[return-value]


def test_a_clock_drifts_from_then_on() -> None:
    timeline = Timeline()
    clocks = MachineClocks(timeline)
    assert passed(clocks, timeline, 10.0) == (10.0, 10.0, 10.0)
    clocks.set_rate(1.01)
    assert passed(clocks, timeline, 10.0) == (10.1, 10.1, 10.1)


def test_only_the_wall_clock_jumps() -> None:
    timeline = Timeline()
    clocks = MachineClocks(timeline)
    wall, monotonic = clocks.wall(), clocks.monotonic()
    clocks.set_wall(-60.0)
    assert (clocks.wall() - wall, clocks.monotonic() - monotonic) == (-60.0, 0.0)


def test_a_machine_that_wakes_has_counted_its_sleep_on_two_clocks() -> None:
    timeline = Timeline()
    clocks = MachineClocks(timeline, rate=1.001)
    before = clocks.monotonic(), clocks.boot(), clocks.wall()
    clocks.fall_asleep()
    timeline.now += 100.0
    clocks.wake()
    after = clocks.monotonic(), clocks.boot(), clocks.wall()
    assert [round(new - old, 3) for old, new in zip(before, after, strict=True)] == [0.0, 100.1, 100.1]


def test_says_when_it_will_show_a_time() -> None:
    timeline = Timeline()
    clocks = MachineClocks(timeline, uptime=5000.0, rate=0.5)
    timeline.now = 3.0
    clocks.set_rate(2.0)
    timeline.now = clocks.world_time_of(5010.0)
    assert round(clocks.monotonic(), 9) == 5010.0


def test_drifts_that_come_together_stay_within_what_leases_allow_for() -> None:
    timeline = Timeline()
    clocks = MachineClocks(timeline)
    for _ in range(4):
        clocks.change_rate(0.97)
    assert passed(clocks, timeline, 10.0) == (9.2, 9.2, 9.2)
    clocks.change_rate(1 / 0.97)
    clocks.change_rate(1 / 0.97)
    assert passed(clocks, timeline, 10.0) == (9.409, 9.409, 9.409)
    for _ in range(5):
        clocks.change_rate(1.1)
    assert passed(clocks, timeline, 10.0) == (10.8, 10.8, 10.8)
