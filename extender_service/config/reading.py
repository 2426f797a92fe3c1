"""Decodes a file's text to a KubeSchedulerConfiguration, as strictly as kube-scheduler's decoder."""

import difflib
import json
from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from extender_service.config.args import API_VERSION, ArgsTypes
from extender_service.config.model import Model
from extender_service.config.problems import ConfigError, Problem, invalid, not_supported, required
from extender_service.config.syntax import parse
from extender_service.config.types import KIND, KubeSchedulerConfiguration

# What the file should have instead, by pydantic's name of the error; of others, the error's own text is shown.
_EXPECTED = {
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge}",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "model_type": "must be a mapping",
    "string_type": "must be text; put it in quotes",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}
_MOST_SHOWN_CHARACTERS = 80


def decode(text: str, args_types: ArgsTypes) -> KubeSchedulerConfiguration:
    """Read a configuration, without the defaults that depend on other fields. Raises ConfigError with all problems."""
    value, problems = parse(text)
    if wrong_type := _check_type(value):
        raise ConfigError(wrong_type)
    try:
        config = KubeSchedulerConfiguration.model_validate(value, by_name=False, context=args_types)
    except ValidationError as error:
        raise ConfigError([*problems, *problems_of(error)]) from None
    if problems:
        raise ConfigError(problems)
    return config


def _check_type(value: object) -> list[Problem]:
    """Return the problems of a file that is no KubeSchedulerConfiguration of this version."""
    if value is not None and not isinstance(value, dict):
        return [Problem("", f"must be a mapping: a {KIND}")]
    problems = []
    for name, expected in ("kind", KIND), ("apiVersion", API_VERSION):
        given = None if value is None else value.get(name)
        if given is None or given == "":
            problems.append(required(name, f"must be {expected}"))
        elif given != expected:
            problems.append(not_supported(name, given, [expected]))
    return problems


def problems_of(error: ValidationError) -> list[Problem]:
    """Return pydantic's errors as problems, with the paths and wording of all others."""
    return [_problem(details) for details in error.errors(include_url=False)]


def _problem(error: ErrorDetails) -> Problem:
    path = _path(error["loc"])
    if error["type"] == "extra_forbidden":
        return Problem(path, f"unknown field{_suggestion(str(error['loc'][-1]))}")
    expected, value = _expected(error), error["input"]
    if len(json.dumps(value, default=str)) > _MOST_SHOWN_CHARACTERS or isinstance(value, (dict, list)):
        return Problem(path, f"Invalid value: {expected}")
    return invalid(path, value, expected)


def _expected(error: ErrorDetails) -> str:
    try:
        return _EXPECTED[error["type"]].format_map(error.get("ctx", {}))
    except KeyError:
        # A validator may also raise an error under a name of pydantic's, without what pydantic would add to it.
        return error["msg"]


def _path(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".")


def _suggestion(name: str) -> str:
    known = {str(field.alias) for model in _models(Model) for field in model.model_fields.values()}
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {close[0]}?" if close else ""


def _models(base: type[Model]) -> Iterator[type[Model]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)
