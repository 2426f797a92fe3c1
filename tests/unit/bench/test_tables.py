from bench.figures import Times
from bench.scheduler.measurement import Pace
from bench.scheduler.tables import Paces, compared


def pace(pods_a_second: float, cpu: float = 1.0, *, bound: int = 100, missing: int = 0, p99: float = 9.0) -> Pace:
    return Pace(pods_a_second, bound, Times(5.0, p99), missing, 0, {"scheduler": cpu, "API server": 2.0})


PACES: Paces = {
    "stock": [pace(100), pace(200), pace(400)],
    "floor": [None, None, None],
    "schedule": [pace(300, 3.0), pace(400, 4.0, bound=90, missing=7), pace(1600, 5.0)],
}
STOCK, FLOOR, SCHEDULE = compared(PACES)


def test_a_row_has_the_median_of_the_rounds_and_the_worst_of_what_is_missing() -> None:
    assert (SCHEDULE["pods/s"], SCHEDULE["wait p50"], SCHEDULE["wait p99"]) == (400, 5.0, 9.0)
    assert (SCHEDULE["bound"], SCHEDULE["events missing"], SCHEDULE["failed"]) == (90, 7, None)


def test_a_program_that_was_never_measured_has_a_row_without_a_pace() -> None:
    assert (FLOOR["program"], FLOOR["pods/s"], FLOOR["bound"], FLOOR["CPU all"]) == ("floor", None, 0, None)
    assert FLOOR["failed"] == 3
    assert [*FLOOR] == [*STOCK] == [*SCHEDULE]


def test_a_failed_measurement_shows_beside_the_medians_of_the_others() -> None:
    [row] = compared({"schedule": [None, pace(100), pace(200)]})
    assert (row["failed"], row["bound"], row["pods/s"]) == (1, 0, 150)


def test_a_program_that_bound_nothing_has_a_pace_of_0_and_no_ratio() -> None:
    nothing = Pace(0.0, 0, None, 0, 7, {})
    stock, _ = compared({"stock": [nothing], "schedule": [pace(100)]})
    assert (stock["pods/s"], stock["bound"], stock["other events"], stock["wait p50"]) == (0.0, 0, 7, None)
    assert (stock["failed"], stock["schedule is"]) == (None, None)


def test_processor_time_is_by_process_and_in_sum() -> None:
    assert (SCHEDULE["CPU scheduler"], SCHEDULE["CPU API server"], SCHEDULE["CPU all"]) == (4.0, 2.0, 6.0)


def test_a_ratio_is_of_two_programs_in_one_round() -> None:
    assert (STOCK["q1"], STOCK["schedule is"], STOCK["q3"]) == (2.5, 3.0, 3.5)
    assert SCHEDULE["schedule is"] is None


def test_a_ratio_leaves_out_rounds_of_which_one_program_failed() -> None:
    stock, _ = compared({"stock": [pace(100), None, pace(100)], "schedule": [pace(300), pace(900), None]})
    assert (stock["schedule is"], stock["failed"]) == (3.0, 1)


def test_p99_is_compared_within_a_round() -> None:
    rounds = [(10, 40), (30, 60), (90, 90)]
    stock, schedule = compared(
        {"stock": [pace(1, p99=its) for _, its in rounds], "schedule": [pace(1, p99=ours) for ours, _ in rounds]}
    )
    assert (stock["p99 is"], schedule["p99 is"]) == (0.5, None)
