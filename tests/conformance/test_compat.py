"""`make compat`, with the two releases whose oracles other tests build, too."""

import re

import pytest

from tests.conformance import compat
from tests.conformance.cases import read_cases, read_lines


def test_a_rule_is_shown_by_examples_whose_verdict_depends_on_it() -> None:
    cases = [case for case in read_cases(read_lines(compat.EXAMPLES)) if case.name in ("toosmall", "taint", "gated")]
    shown = {rule: compat.shown_by(rule, cases) for rule in compat.RULES}
    assert shown["too_large_is_unresolvable"] == ["toosmall"]
    assert shown["unnamed_taints"] == ["taint"]
    assert shown["gated_nominees"] == ["gated"]
    assert shown["sidecar_ports"] == []


def test_a_rule_comes_with_one_release() -> None:
    assert compat.first_minor("gated_nominees") == 37
    assert compat.first_minor("scores_volume_capacity") is None


@pytest.mark.usefixtures("reference", "newest_reference")
def test_the_oldest_and_the_newest_release_agree_with_their_own_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    assert compat.main(["31", "37"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"^1\.37: (\d+) of \1 examples are known, 0 differ$", told, re.MULTILINE)
    assert "gated_nominees: from 1.37 on, shown by none that both releases judged alike" in told
