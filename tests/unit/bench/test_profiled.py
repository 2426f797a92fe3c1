import sys

from bench.scheduler.profiled import Samples


def schedule_one(samples: Samples) -> None:
    samples.take(0, sys._getframe())


def test_samples_before_the_first_attempt_do_not_count() -> None:
    samples = Samples()
    samples.take(0, sys._getframe())
    assert not samples.stacks

    for _ in range(2):
        schedule_one(samples)
    samples.take(0, sys._getframe())

    (of_attempts, attempts), (of_test, after) = samples.stacks.most_common()
    assert (attempts, after) == (2, 1)
    assert of_attempts == of_test + ";test_profiled:schedule_one"
