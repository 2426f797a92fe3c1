"""Makes a case that differs as small as it can be while it still differs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from tests.conformance import oracle
from tests.conformance.cases import read_cases, read_verdicts
from tests.conformance.judgement import judge

Draft = dict[str, Any]
# Whether each of some drafts differs from the reference.
Differs = Callable[[Sequence[Draft]], list[bool]]


def differs_with(only: Sequence[str], reference: oracle.Reference = oracle.OLDEST) -> Differs:
    """Ask the reference about drafts, all at once; one that it cannot evaluate does not count as different."""

    def differs(drafts: Sequence[Draft]) -> list[bool]:
        lines = [msgspec.json.encode(draft) for draft in drafts]
        verdicts = read_verdicts(iter(oracle.ask(b"\n".join(lines), reference).splitlines()))
        judgements = judge(read_cases(iter(lines)), verdicts, only, reference.rules)
        return [
            not judgement.agrees and "error" not in verdict
            for judgement, verdict in zip(judgements, verdicts, strict=True)
        ]

    return differs


def minimise(draft: Draft, differs: Differs) -> Draft:
    """Leave out objects and fields, the largest parts first, for as long as the case still differs."""
    while True:
        found = next(
            (smaller for attempt in _attempts(draft) if (smaller := _first(attempt, differs)) is not None), None
        )
        if found is None:
            return draft
        draft = found


def _first(drafts: Sequence[Draft], differs: Differs) -> Draft | None:
    return next((each for each, still in zip(drafts, differs(drafts), strict=True) if still), None) if drafts else None


def _attempts(draft: Draft) -> Iterator[list[Draft]]:
    """Yield smaller drafts, those that lack most first: many objects, one object or the configuration, one field."""
    objects = draft["objects"]
    size = len(objects) // 2
    while size:
        yield [{**draft, "objects": objects[:at] + objects[at + size :]} for at in range(0, len(objects), size)]
        size //= 2
    yield [{key: value for key, value in draft.items() if key != "config"}] if draft.get("config") is not None else []
    yield [{**draft, "pod": pod} for pod in _without_one_field(draft["pod"])]
    for index, item in enumerate(objects):
        yield [
            {**draft, "objects": [*objects[:index], smaller, *objects[index + 1 :]]}
            for smaller in _without_one_field(item)
        ]
    if draft.get("config") is not None:
        profiles = draft["config"]["profiles"]
        yield [{**draft, "config": {**draft["config"], "profiles": smaller}} for smaller in _without_one_part(profiles)]


def _without_one_field(item: dict[str, Any]) -> list[dict[str, Any]]:
    """An object without each field in turn, and each part of one; what tells which object it is stays."""
    kept = {"metadata": ("name", "namespace", "uid")}
    return [
        {**item, part: smaller}
        for part, fields in item.items()
        if isinstance(fields, dict)
        for smaller in _without_one_part(fields)
        if all(smaller.get(name) == fields.get(name) for name in kept.get(part, ()))
    ]


def _without_one_part(value: Any) -> Sequence[Any]:
    """A value without each of its entries in turn, then with each entry made smaller in the same way."""
    if isinstance(value, dict):
        shorter = [{key: each for key, each in value.items() if key != name} for name in value]
        return shorter + [{**value, name: part} for name, each in value.items() for part in _without_one_part(each)]
    if isinstance(value, list):
        lists = [value[:index] + value[index + 1 :] for index in range(len(value))]
        return lists + [
            [*value[:index], part, *value[index + 1 :]]
            for index, each in enumerate(value)
            for part in _without_one_part(each)
        ]
    return []
