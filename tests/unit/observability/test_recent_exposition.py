from collections.abc import Iterator
from itertools import count

import pytest

from extender_service.observability.recent_exposition import MOST_AGE_SECONDS, SAVED_SECONDS, SHARE, RecentExposition
from tests.support.clock import Clock

TEXT = "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
ENCODING_SECONDS = 0.02


class Scraped:
    """Metrics that take `seconds` to encode; each encoding has a number of its own."""

    def __init__(self, seconds: float = ENCODING_SECONDS) -> None:
        self.clock = Clock()
        self.encoded: list[str] = []
        self.seconds = seconds
        self._numbers: Iterator[int] = count(1)
        self.recent = RecentExposition(self._encode, self.clock)

    def scrape(self, accept: str = TEXT) -> int:
        """Return the number of the encoding that is the answer."""
        return int(self.recent(accept)[0])

    def _encode(self, accept: str) -> tuple[bytes, str]:
        self.encoded.append(accept)
        self.clock.pass_seconds(self.seconds)
        return b"%d" % next(self._numbers), accept


def test_who_scrapes_now_and_then_gets_new_values_each_time() -> None:
    scraped = Scraped()
    for number in range(1, 100):
        assert scraped.scrape() == number
        scraped.clock.pass_seconds(1)


def test_who_scrapes_all_the_time_takes_a_share_of_it() -> None:
    scraped = Scraped()
    began = scraped.clock()
    while scraped.clock() - began < 100:
        scraped.scrape()
        scraped.clock.pass_seconds(0.0005)
    took = len(scraped.encoded) * ENCODING_SECONDS
    assert took == pytest.approx(SAVED_SECONDS + SHARE * 100, rel=0.1)


@pytest.mark.parametrize("seconds", [0.02, 0.05, 60])
def test_no_answer_is_older_than_a_second(seconds: float) -> None:
    scraped = Scraped(seconds)
    encoded_at = scraped.clock()
    for _ in range(10_000):
        before = len(scraped.encoded)
        scraped.scrape()
        if len(scraped.encoded) > before:
            encoded_at = scraped.clock()
        assert scraped.clock() - encoded_at <= MOST_AGE_SECONDS
        scraped.clock.pass_seconds(0.001)


def test_neither_format_waits_for_the_other() -> None:
    scraped = Scraped()
    for _ in range(1000):
        scraped.scrape()
    assert scraped.scrape(OPENMETRICS) == len(scraped.encoded)
    assert scraped.encoded.count("application/openmetrics-text") == 1


def test_headers_that_differ_for_nothing_share_an_answer() -> None:
    scraped = Scraped(SAVED_SECONDS * 2)
    answers = {scraped.scrape(f"text/plain;version={number}") for number in range(1000)}
    assert answers == {1}
    assert scraped.encoded == ["text/plain"]
