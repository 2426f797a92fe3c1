"""What is wrong with a configuration, as paths and messages in the form of apimachinery's field.Error."""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from extender_service.config.durations import Duration
from extender_service.kube.parsing.label_syntax import Wording, label_key_faults, quoted


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
    """Report a required value that is missing."""
    return Problem(path, _worded("Required value", detail))


def invalid(path: str, value: object, detail: str) -> Problem:
    """Report a value that breaks a rule, which `detail` states."""
    return Problem(path, _worded(f"Invalid value: {_shown(value)}", detail))


def out_of_range(path: str, value: int, valid: str) -> Problem:
    """Report a number outside of its range, such as `[0, 100]`."""
    return invalid(path, value, f"not in valid range {valid}")


def invalid_label_key(path: str, key: str, wording: Wording) -> Iterator[Problem]:
    """Yield what is wrong with a label key, or with a name of the same form; nothing for a valid one."""
    return (invalid(path, key, fault) for fault in label_key_faults(key, wording))


def duplicate(path: str, value: object) -> Problem:
    """Report a value that must be unique but that another field has, too."""
    return Problem(path, f"Duplicate value: {_shown(value)}")


def not_supported(path: str, value: object, supported: Iterable[str]) -> Problem:
    """Report a value that is not one of those supported."""
    values = ", ".join(quoted(each) for each in supported)
    return Problem(path, f"Unsupported value: {_shown(value)}: supported values: {values}")


def forbidden(path: str, detail: str) -> Problem:
    """Report a value that the file must not give."""
    return Problem(path, _worded("Forbidden", detail))


def _worded(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind


def _shown(value: object) -> str:
    """Return a simple value as Go prints it, any other as JSON."""
    if isinstance(value, Duration):
        return str(value)
    return quoted(value) if isinstance(value, str) else json.dumps(value, default=str)
