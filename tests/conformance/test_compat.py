"""`make compat`, with the two releases whose oracles other tests build, too."""

import re

import pytest

from tests.conformance import compat


def test_the_verdict_on_an_example_depends_on_each_rule_that_it_shows() -> None:
    examples = compat.read_examples()
    claimed = {(example.name, rule) for example in examples for rule in example.shows}
    shown = {(example.name, rule) for example in examples for rule in example.shows if compat.depends_on(example, rule)}
    assert claimed == shown
    [too_small] = [example for example in examples if example.name == "toosmall"]
    assert not compat.depends_on(too_small, "sidecar_ports")


def test_each_rule_is_shown_by_an_example_or_there_is_a_reason_why_none_does() -> None:
    shown = {rule for example in compat.read_examples() for rule in example.shows}
    reasons = [rule for rules in compat.NO_EXAMPLE.values() for rule in rules]
    assert len(set(reasons)) == len(reasons)
    assert shown.isdisjoint(reasons)
    assert shown | set(reasons) == set(compat.RULES)


def test_a_rule_comes_with_one_release() -> None:
    assert compat.first_minor("gated_nominees") == 37
    assert compat.first_minor("scores_volume_capacity") is None


@pytest.mark.usefixtures("reference", "newest_reference")
def test_the_oldest_and_the_newest_release_agree_with_their_own_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    assert compat.main(["31", "37"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^1\.37: (\d+) of \1 examples are known, 0 differ$", told, re.MULTILINE)
    assert "gated_nominees: from 1.37 on, shown by none that both releases judged alike" in told
