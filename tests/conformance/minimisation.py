"""Makes a case that differs as small as it can be while it still differs."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.conformance import oracle
from tests.conformance.cases import read_cases, read_verdicts
from tests.conformance.judgement import judge

Draft = dict[str, Any]
# Whether each of some drafts differs from the reference.
Differs = Callable[[Sequence[Draft]], list[bool]]


def differs_with(only: Sequence[str]) -> Differs:
    """Ask the reference about drafts, all at once; one that it cannot evaluate does not count as different."""

    def differs(drafts: Sequence[Draft]) -> list[bool]:
        lines = [msgspec.json.encode(draft) for draft in drafts]
        references = read_verdicts(iter(oracle.ask(b"\n".join(lines)).splitlines()))
        judgements = judge(read_cases(iter(lines)), references, only)
        return [
            not judgement.agrees and "error" not in reference
            for judgement, reference in zip(judgements, references, strict=True)
        ]

    return differs


def minimise(draft: Draft, differs: Differs) -> Draft:
    """Leave out objects and fields, the largest first, for as long as the case still differs."""
    while True:
        smaller = _without_one_part(draft)
        found = next((each for each, still in zip(smaller, differs(smaller), strict=True) if still), None)
        if found is None:
            return draft
        draft = found


def _without_one_part(draft: Draft) -> list[Draft]:
    """The case without each of its parts in turn: its configuration, an object, a field of the pod or of an object."""
    drafts = []
    if draft.get("config") is not None:
        drafts.append({key: value for key, value in draft.items() if key != "config"})
    objects = draft["objects"]
    drafts += [{**draft, "objects": objects[:index] + objects[index + 1 :]} for index in range(len(objects))]
    drafts += [{**draft, "pod": pod} for pod in _without_one_field(draft["pod"])]
    for index, item in enumerate(objects):
        drafts += [
            {**draft, "objects": [*objects[:index], smaller, *objects[index + 1 :]]}
            for smaller in _without_one_field(item)
        ]
    return drafts


def _without_one_field(item: dict[str, Any]) -> list[dict[str, Any]]:
    """An object without each field of its parts in turn; what tells which object it is stays."""
    kept = {"metadata": ("name", "namespace", "uid")}
    return [
        {**item, part: {key: value for key, value in fields.items() if key != name}}
        for part, fields in item.items()
        if isinstance(fields, dict)
        for name in fields
        if name not in kept.get(part, ())
    ]
