"""Bring the outcomes of two servers to one form: what must differ becomes the number of its first appearance."""

import json
import re
from typing import Any

from tests.worlds.model_check.players import Outcome

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# A version that only a text shows.
_STORED_VERSION = re.compile(r"(ResourceVersion in (?:record \(|object meta: ))(\d+)")
_VERSION = re.compile(r"\b\d{2,}\b")
# How far a server's window goes back, or how far it is: never the same on both.
_OWN_VERSION = re.compile(r"(too old resource version: \d+ \(|Too large resource version: \d+, current: )\d+")
_INVALID = 422


class Canonical:
    """Translates the outcomes of one server, in order."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}

    def outcome(self, outcome: Outcome) -> Any:
        """Return an outcome as it must be equal on both servers."""
        if outcome.events is not None:
            return {"status": outcome.status, "events": [self._event(event) for event in _in_order(outcome.events)]}
        body = outcome.body
        if isinstance(body, dict) and "items" in body:
            metadata = body["metadata"]
            self._check_list(body, outcome)
            kept = {"remaining": metadata.get("remainingItemCount"), "goes on": "continue" in metadata}
            items = [self._value(item) for item in body["items"]]
            return {"status": outcome.status, "kind": body["kind"], "items": items, **kept}
        if isinstance(body, dict) and body.get("kind") == "Status":
            return {"status": outcome.status, "answer": self._status(body)}
        return {"status": outcome.status, "answer": self._value(body)}

    def _check_list(self, body: Any, outcome: Outcome) -> None:
        version = int(body["metadata"]["resourceVersion"])
        newest = max((int(item["metadata"]["resourceVersion"]) for item in body["items"]), default=0)
        if newest > version:
            raise ValueError(f"{outcome.step.describe()}: an item has version {newest}, the list {version}")

    def _event(self, event: Any) -> Any:
        if event["type"] == "BOOKMARK":
            return {"type": "BOOKMARK", "annotations": event["object"]["metadata"].get("annotations")}
        if event["type"] == "ERROR":
            return {"type": "ERROR", "object": self._status(event["object"])}
        return {"type": event["type"], "object": self._value(event["object"])}

    def _status(self, body: Any) -> Any:
        status = {key: value for key, value in body.items() if key not in ("metadata", "details")}
        details = body.get("details") or {}
        status["details"] = {key: value for key, value in details.items() if key != "causes"}
        causes = details.get("causes") or ()
        if status.get("code") == _INVALID:
            # Their texts are as long as the rules; which rule of which field is broken is what counts.
            del status["message"]
            status["causes"] = sorted({f"{cause.get('reason')} {cause.get('field')}" for cause in causes})
        else:
            status["causes"] = list(causes)
        status["continues"] = bool((body.get("metadata") or {}).get("continue"))
        return self._value(status)

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            # In the order of the names: servers number what they show in their own.
            parts = ((name, self._value(value[name], name)) for name in sorted(value) if name != "managedFields")
            return {name: part for name, part in parts if part not in (None, {}, [], "")}
        if isinstance(value, list):
            return [self._value(entry) for entry in value]
        if isinstance(value, str):
            return self._text(value, key)
        return value

    def _text(self, text: str, key: str) -> str:
        if key == "resourceVersion":
            return self._version(text)
        if _TIME.fullmatch(text):
            return "<time>"
        text = _UID.sub(lambda found: self._uids.setdefault(found[0], f"<uid {len(self._uids) + 1}>"), text)
        if key != "message":
            return text
        text = _OWN_VERSION.sub(r"\1<version of the server>", text)
        text = _STORED_VERSION.sub(lambda found: found[1] + self._version(found[2]), text)
        return _VERSION.sub(lambda found: self._versions.get(found[0], found[0]), text)

    def _version(self, version: str) -> str:
        return self._versions.setdefault(version, f"<version {len(self._versions) + 1}>")


def _in_order(events: list[Any]) -> list[Any]:
    """The state at the start of a watch has no order."""
    count = next((index for index, event in enumerate(events) if event["type"] != "ADDED"), len(events))
    return sorted(events[:count], key=lambda event: str(event["object"]["metadata"]["name"])) + events[count:]


def difference(model: list[Outcome], real: list[Outcome]) -> tuple[int, str, str] | None:
    """Return the number of the first step whose outcomes differ, and both; None if all are equal."""
    ours, theirs = Canonical(), Canonical()
    for expected, found in zip(real, model, strict=True):
        left, right = theirs.outcome(expected), ours.outcome(found)
        if left != right:
            return expected.step.number, _pretty(left), _pretty(right)
    return None


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)
