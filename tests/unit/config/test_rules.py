from dataclasses import fields

from extender_service.config.known_gates import minors_with
from extender_service.config.rules import Rules, followed_gates, rules_of


def test_the_oldest_release_has_no_rule_of_a_later_one() -> None:
    assert {getattr(rules_of(31), each.name) for each in fields(Rules) if each.name != "release"} == {False}


def test_a_rule_behind_a_gate_follows_the_gate_and_its_default() -> None:
    assert [rules_of(minor).queueing_hints for minor in (31, 32, 37)] == [False, True, True]
    assert rules_of(31, {"SchedulerQueueingHints": True}).queueing_hints
    assert not rules_of(32, {"SchedulerQueueingHints": False}).queueing_hints


def test_each_rule_holds_in_some_release_or_with_some_gate() -> None:
    on = [rules_of(minor, dict.fromkeys(followed_gates(minor), True)) for minor in range(31, 38)]
    rules = [each.name for each in fields(Rules) if each.name != "release"]
    assert [name for name in rules if not any(getattr(release, name) for release in on)] == []


def test_each_gate_of_the_table_is_one_of_kube_schedulers() -> None:
    assert [name for name in followed_gates(37) if not minors_with(name)] == []


def test_the_release_is_shown() -> None:
    assert rules_of(34).release == "1.34"


def test_budgets_count_otherwise_from_1_37_on() -> None:
    # 1.36 has the new way for the victims of groups of pods only.
    assert [rules_of(minor).first_violated_budget_counts for minor in (35, 36, 37)] == [False, False, True]
