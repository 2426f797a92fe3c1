from extender_service.kube.connection.backoff import Backoff


def test_delays_double_up_to_the_limit() -> None:
    backoff = Backoff(uniform=lambda low, high: low)
    assert [backoff.next_delay() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_delays_are_stretched_at_random_to_up_to_twice() -> None:
    assert Backoff(uniform=lambda low, high: high).next_delay() == 1.6
    delays = {Backoff().next_delay() for _ in range(20)}
    assert len(delays) > 1
    assert all(0.8 <= delay <= 1.6 for delay in delays)


def test_delays_start_over_after_two_minutes_without_failure() -> None:
    readings = iter([0.0, 10.0, 20.0, 140.0, 140.1, 260.2])
    backoff = Backoff(clock=lambda: next(readings), uniform=lambda low, high: low)
    assert [backoff.next_delay() for _ in range(5)] == [0.8, 1.6, 3.2, 6.4, 0.8]
