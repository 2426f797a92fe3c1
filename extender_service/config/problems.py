"""What is wrong with a configuration, as paths and messages in the form of apimachinery's field.Error."""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from extender_service.config.durations import Duration
from extender_service.kube.parsing.label_syntax import label_key_faults, quoted


class Problem(NamedTuple):
    """One thing wrong. `path` names the field as `profiles[1].schedulerName`; it is empty for the file as a whole."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(ValueError):
    """A configuration that kube-scheduler would refuse. Its text has one line for each of its `problems`."""

    def __init__(self, problems: Iterable[Problem], source: str = "") -> None:
        self.problems = list(problems)
        self.source = source
        prefix = f"{source}: " if source else ""
        super().__init__("\n".join(f"{prefix}{problem}" for problem in self.problems))


def required(path: str, detail: str = "") -> Problem:
    """A value that must be given and is not."""
    return Problem(path, _worded("Required value", detail))


def invalid(path: str, value: object, detail: str) -> Problem:
    """A value that cannot be."""
    return Problem(path, _worded(f"Invalid value: {_shown(value)}", detail))


def out_of_range(path: str, value: int, valid: str) -> Problem:
    """A number outside the range that is valid, such as `[0, 100]`."""
    return invalid(path, value, f"not in valid range {valid}")


def invalid_label_key(path: str, key: str) -> Iterator[Problem]:
    """All that is wrong with the key of a label, or with a name in its form; nothing for a valid one."""
    return (invalid(path, key, fault) for fault in label_key_faults(key))


def duplicate(path: str, value: object) -> Problem:
    """A value that another field has already and that must be unique."""
    return Problem(path, f"Duplicate value: {_shown(value)}")


def not_supported(path: str, value: object, supported: Iterable[str]) -> Problem:
    """A value that is not one of a few."""
    values = ", ".join(quoted(each) for each in supported)
    return Problem(path, f"Unsupported value: {_shown(value)}: supported values: {values}")


def forbidden(path: str, detail: str) -> Problem:
    """A value that must not be given."""
    return Problem(path, _worded("Forbidden", detail))


def _worded(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind


def _shown(value: object) -> str:
    """A value as Go prints it if it is simple, else as JSON."""
    if isinstance(value, Duration):
        return str(value)
    return quoted(value) if isinstance(value, str) else json.dumps(value, default=str)
