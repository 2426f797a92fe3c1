import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.config.durations import Duration

GOLDEN = json.loads((Path(__file__).parent / "golden" / "durations.json").read_text())


@pytest.mark.parametrize(("text", "nanoseconds", "printed"), [case for case in GOLDEN if len(case) > 1])
def test_text_is_read_and_printed_as_go_does(text: str, nanoseconds: int, printed: str) -> None:
    duration = Duration.parse(text)
    assert duration == nanoseconds
    assert str(duration) == printed


@pytest.mark.parametrize("text", [case[0] for case in GOLDEN if len(case) == 1])
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        Duration.parse(text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_duration_survives_printing(nanoseconds: int) -> None:
    assert Duration.parse(str(Duration(nanoseconds))) == nanoseconds


def test_seconds_are_those_of_the_text() -> None:
    assert Duration.parse("1m0.5s").seconds == 60.5
