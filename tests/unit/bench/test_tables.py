from bench.figures import Times
from bench.scheduler.measurement import Pace
from bench.scheduler.tables import Paces, ratios, reached, taken


def pace(pods_a_second: float, cpu: float = 1.0, *, bound: int = 100, missing: int = 0) -> Pace:
    return Pace(pods_a_second, bound, Times(5.0, 9.0), missing, 0, {"scheduler": cpu, "API server": 2.0})


FOUND: dict[str, Paces] = {
    "basic": {
        "stock": [pace(100), pace(200), pace(400)],
        "schedule": [pace(300, 3.0), pace(400, 4.0, bound=90, missing=7), pace(1600, 5.0)],
    },
    "gangs": {"floor": [pace(10), None, None], "schedule": [None, None, None]},
}


def test_a_row_has_the_median_of_the_rounds_and_the_worst_of_what_is_missing() -> None:
    rows = {(row["workload"], row["program"]): row for row in reached(FOUND)}
    row = rows["basic", "schedule"]
    assert (row["pods/s"], row["wait p50"], row["wait p99"]) == (400, 5.0, 9.0)
    assert (row["bound"], row["events missing"]) == (90, 7)
    assert rows["gangs", "floor"]["pods/s"] == 10


def test_a_program_that_bound_nothing_has_a_row_without_a_pace() -> None:
    [*_, row] = reached(FOUND)
    assert (row["program"], row["pods/s"], row["bound"]) == ("schedule", None, 0)


def test_processor_time_is_by_program_and_in_sum() -> None:
    rows = [*taken(FOUND)]
    assert [row["program"] for row in rows] == ["stock", "schedule", "floor"]
    assert (rows[1]["scheduler"], rows[1]["API server"], rows[1]["all"]) == (4.0, 2.0, 6.0)


def test_a_ratio_is_of_two_programs_in_one_round() -> None:
    [row] = ratios(FOUND)
    assert (row["workload"], row["of"], row["rounds"]) == ("basic", "schedule / stock", 3)
    assert (row["q1"], row["median"], row["q3"]) == (3.0, 3.0, 4.0)
