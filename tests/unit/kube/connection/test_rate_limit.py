import asyncio

from extender_service.kube.connection.rate_limit import TokenBucket


class Time:
    """Passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def times_of(time: Time, bucket: TokenBucket, count: int) -> list[float]:
    """When each of so many things could happen."""

    async def take() -> list[float]:
        times = []
        for _ in range(count):
            await bucket.take()
            times.append(time.now)
        return times

    return asyncio.run(take())


def test_some_happen_at_once_and_the_rest_one_after_the_other() -> None:
    time = Time()
    bucket = TokenBucket(4, 3, clock=time.clock, sleep=time.sleep)
    assert times_of(time, bucket, 6) == [0, 0, 0, 0.25, 0.5, 0.75]


def test_what_is_not_used_is_saved_up_to_the_burst() -> None:
    time = Time()
    bucket = TokenBucket(4, 3, clock=time.clock, sleep=time.sleep)
    times_of(time, bucket, 3)
    time.now = 0.5
    assert times_of(time, bucket, 3) == [0.5, 0.5, 0.75]
    time.now = 1000
    assert times_of(time, bucket, 5) == [1000, 1000, 1000, 1000.25, 1000.5]


def test_those_who_wait_together_go_one_after_the_other() -> None:
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def take_all() -> None:
        bucket = TokenBucket(4, 1, clock=lambda: 0.0, sleep=sleep)
        await asyncio.gather(*(bucket.take() for _ in range(4)))

    asyncio.run(take_all())
    assert waits == [0.25, 0.5, 0.75]


def test_how_long_a_caller_would_wait_is_known_beforehand() -> None:
    time = Time()
    bucket = TokenBucket(4, 3, clock=time.clock, sleep=time.sleep)
    times_of(time, bucket, 2)
    assert bucket.wait_seconds() == 0
    times_of(time, bucket, 1)
    assert bucket.wait_seconds() == 0.25
    time.now += 0.1
    assert bucket.wait_seconds() == 0.15
    assert times_of(time, bucket, 1) == [0.25]
    time.now += 1000
    assert bucket.wait_seconds() == 0
