"""Nothing executes more Python than it did: a regression check that a busy machine does not disturb."""

from functools import cache
from itertools import pairwise

import pytest

from tests.counted import budgets
from tests.counted.cases import CASES, VICTIMS, dry_run

counted = cache(budgets.counted)


def test_each_case_has_a_budget() -> None:
    assert {name: list(case.sizes) for name, case in CASES.items()} == {
        name: list(by_nodes) for name, by_nodes in budgets.read().items()
    }


@pytest.mark.parametrize(("name", "nodes"), [(name, nodes) for name, case in CASES.items() for nodes in case.sizes])
def test_a_case_keeps_to_its_budget(name: str, nodes: int) -> None:
    problem = budgets.problem(counted(name, nodes), budgets.read()[name][nodes])
    assert problem is None, f"{problem}; where that is meant: python -m tests.counted --update"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.per_node and len(case.sizes) > 1])
def test_no_python_runs_per_node(name: str) -> None:
    few, many = CASES[name].sizes
    # The shortest loop executes three bytecodes for each.
    assert counted(name, many) - counted(name, few) < many - few


def test_preemption_grows_in_proportion_to_the_victims_of_a_node() -> None:
    nodes = 100
    counts = [counted(dry_run(victims), nodes) for victims in VICTIMS]
    first, second = [
        (more - fewer) / (victims - fewer_victims)
        for (fewer, more), (fewer_victims, victims) in zip(pairwise(counts), pairwise(VICTIMS), strict=True)
    ]
    assert second == pytest.approx(first, rel=0.02)
