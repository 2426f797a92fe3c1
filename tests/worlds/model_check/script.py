"""Scripts of requests that can be played on any API server: what differs between servers stands as a reference.

References stand in strings: `{ns}` is the script's namespace, `{uid:PATH}` and `{rv:PATH}` are of the object that was
last seen at a path such as `pods/a`, `{list:N}` is the resource version and `{token:N}` the continue token that step N
answered. What was never seen is "0", so a script stays valid when steps are left out.
"""

import re
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

_REFERENCE = re.compile(r"\{(ns|uid|rv|list|token)(?::([^}]*))?\}")
# The object that a watch is read up to: its name begins with this.
LAST = "zz-"


@dataclass(frozen=True)
class Step:
    """One request. `number` stays when other steps are left out.

    `path` begins with the group: `v1/pods/a`, `policy/v1/poddisruptionbudgets`; the namespace is put in by
    `is_namespaced`. A body is an object, text, or, with `start`, what was last seen at that path with the body merged
    into it.
    """

    number: int
    method: str
    path: str
    body: Object | str | None = None
    query: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    start: str = ""
    is_namespaced: bool = True

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query

    @property
    def ends_watches(self) -> bool:
        """Whether it creates an object up to which watches are read."""
        return isinstance(self.body, dict) and str((self.body.get("metadata") or {}).get("name")).startswith(LAST)

    def describe(self) -> str:
        """Return the step in one line."""
        query = "&".join(f"{key}={value}" for key, value in self.query.items())
        parts = [f"{self.number:3}", self.method, self.path + (f"?{query}" if query else "")]
        if self.start:
            parts.append(f"(from {self.start})")
        if self.method == "PATCH":
            parts.append(self.content_type.removeprefix("application/"))
        if self.body is not None:
            parts.append(str(self.body))
        return " ".join(parts)


@dataclass(frozen=True)
class Script:
    """Steps in a namespace of their own: each run of a script has another one."""

    seed: int
    steps: tuple[Step, ...]
    run: int = 0

    @property
    def namespace(self) -> str:
        return f"s{self.seed}-{self.run}"


class Seen:
    """What a server has answered so far: resolves references."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._objects: dict[str, Object] = {}
        self._lists: dict[int, Object] = {}

    def note(self, step: Step, answer: Any) -> None:
        """Remember what a step was answered."""
        if not isinstance(answer, dict) or answer.get("kind") == "Status":
            return
        metadata = answer.get("metadata") or {}
        if "items" in answer:
            self._lists[step.number] = metadata
        elif name := metadata.get("name"):
            group, plural = split(step.path)[:2]
            self._objects[f"{plural}/{name}"] = answer
            self._objects[f"{group}/{plural}/{name}"] = answer

    def object(self, path: str) -> Object:
        """Return the object that was last seen at a path, empty if none was."""
        return self._objects.get(self.text(path), {})

    def text(self, text: str) -> str:
        """Return a text with its references resolved."""
        return _REFERENCE.sub(self._resolve, text)

    def value(self, value: Any) -> Any:
        """Return a JSON value with the references in its texts and keys resolved."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.value(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.value(entry) for entry in value]
        return value

    def _resolve(self, found: re.Match[str]) -> str:
        what, where = found.groups()
        if what == "ns":
            return self._namespace
        if what in ("list", "token"):
            metadata = self._lists.get(int(where), {})
            return str(metadata.get("resourceVersion" if what == "list" else "continue", "0"))
        metadata = self._objects.get(where.replace("NS", self._namespace), {}).get("metadata", {})
        return str(metadata.get("uid" if what == "uid" else "resourceVersion", "0"))


def split(path: str) -> tuple[str, str, str]:
    """Return the group version, the plural and the rest of a step's path."""
    parts = path.split("/")
    length = 1 if parts[0] == "v1" else 2
    return "/".join(parts[:length]), parts[length], "/".join(parts[length + 1 :])


def url_path(step: Step, seen: Seen) -> str:
    """Return the path of a step's request."""
    group_version, plural, rest = split(seen.text(step.path))
    root = "/api" if group_version == "v1" else "/apis"
    scope = f"/namespaces/{seen.text('{ns}')}" if step.is_namespaced else ""
    return f"{root}/{group_version}{scope}/{plural}" + (f"/{rest}" if rest else "")


def body_of(step: Step, seen: Seen) -> Object | str | None:
    """Return the body of a step's request."""
    body = seen.value(step.body)
    if not step.start:
        return body  # type: ignore[no-any-return]
    name = seen.text(step.start).rpartition("/")[2]
    return merged(seen.object(step.start) or {"metadata": {"name": name}}, body)


def merged(value: Any, change: Object) -> Object:
    """Return a value with a JSON merge patch applied."""
    result = dict(value) if isinstance(value, dict) else {}
    for key, entry in change.items():
        if entry is None:
            result.pop(key, None)
        elif isinstance(entry, dict):
            result[key] = merged(result.get(key), entry)
        else:
            result[key] = entry
    return result
