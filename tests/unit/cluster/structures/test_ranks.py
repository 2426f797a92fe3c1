from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.structures.ranks import order_by, rank_in_group

numbers = st.one_of(
    st.integers(-3, 3), st.integers(-(2**40), 2**40), st.sampled_from([-(2**63), 2**63 - 1, 2**16, 2**32])
)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30))
def test_the_order_is_that_of_lexsort(drawn: list[tuple[int, int]]) -> None:
    first, second = (np.array(key, np.int64) for key in zip(*drawn, strict=True))
    assert order_by((first, second)).tolist() == np.lexsort((first, second)).tolist()


def test_nothing_is_in_order() -> None:
    assert order_by((np.zeros(0, np.int64),)).tolist() == []
    assert rank_in_group(np.zeros(0, np.intp)).tolist() == []


@given(st.lists(st.integers(0, 4), max_size=20))
def test_the_members_of_each_group_are_numbered(drawn: list[int]) -> None:
    groups = sorted(drawn)
    expected = [rank for _, members in groupby(groups) for rank, _ in enumerate(members)]
    assert rank_in_group(np.array(groups, np.intp)).tolist() == expected


def test_of_many_equal_things_none_overtakes_another() -> None:
    first, second = np.arange(5000) // 7 % 3, np.arange(5000) // 11 % 2
    assert order_by((first, second)).tolist() == np.lexsort((first, second)).tolist()
