"""Small worlds have what is wanted, and all else as their seed draws it."""

from dataclasses import replace

from tests.worlds.finding.small_worlds import small_world


def test_what_is_wanted_changes_nothing_else() -> None:
    for seed in range(20):
        plain = small_world(seed)
        assert small_world(seed, None, frozenset({"patient"})) == replace(plain, wanted=plain.wanted | {"patient"})


def test_a_pair_has_one_replica() -> None:
    pairs = [small_world(seed, "replace", frozenset({"leader-lease"})) for seed in range(20)]
    assert all(each.is_pair for each in pairs)
    assert {small_world(seed, "beside", frozenset({"leader-lease"})).replicas for seed in range(20)} == {1, 2}
