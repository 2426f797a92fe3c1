"""As many cases as asked for: fresh ones, and ones that are derived from those of both generators."""

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import msgspec

from tests.conformance import golden, oracle
from tests.conformance.edge_cases.case_builder import Item, Source
from tests.conformance.edge_cases.derivation import derived_case
from tests.conformance.edge_cases.families import FAMILIES, fresh_case

# Large clusters take long, so there are fewer of them.
_LARGE_EVERY = 10
# The seed of the cases that others are derived from, so that they are not among the fresh ones.
_OF_OTHERS = 10**9


def fresh_cases(seed: int, count: int, families: Sequence[str] = FAMILIES) -> Iterator[Item]:
    """Yield cases of the families in turn; of the large ones, a tenth as many."""
    turns = _turns(families)
    for number, family in enumerate(islice(turns, count)):
        yield fresh_case(family, seed, number)


def _turns(families: Sequence[str]) -> Iterator[str]:
    small = [family for family in families if family != "large"]
    if len(small) in (0, len(families)):
        return cycle(families)
    return cycle([*small * _LARGE_EVERY, "large"])


def derived_cases(seed: int, count: int) -> Iterator[Item]:
    """Yield cases that are derived from one of ours and one of the first generator's in turn."""
    ours = fresh_cases(seed + _OF_OTHERS, -(-count // 2), [family for family in FAMILIES if family != "large"])
    theirs = _of_first_generator(seed, -(-count // 2))
    for index in range(count):
        source = next(ours if index % 2 == 0 else theirs)
        yield derived_case(source, seed, index)


def _of_first_generator(seed: int, count: int) -> Iterator[Item]:
    """Yield at least so many cases of all its families, mixed."""
    lines = oracle.generate(seed, count // len(golden.families()) + 1, []).splitlines()
    Source(seed).shuffle(lines)
    yield from map(msgspec.json.decode, lines)
