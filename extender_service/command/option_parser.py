"""The parser of the command line: argparse's, with errors of one line, and defaults from the environment."""

import argparse
import difflib
import os
from collections.abc import Callable
from typing import Any, NoReturn

ENVIRONMENT_PREFIX = "EXTENDER_SERVICE_"

AddOption = Callable[..., None]
"""Adds an option, like OptionParser.add_option."""


class OptionParser(argparse.ArgumentParser):
    """An ArgumentParser that reports errors in one line, and takes defaults of options from the environment.

    It refuses abbreviated options: an abbreviation that is unique today may be ambiguous in the next version. What it
    parses has `given_options`: the long names of the options that the command line or the environment gives.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self._options: list[tuple[str, argparse.Action, bool]] = []
        self._by_name: dict[str, argparse.Action] = {}

    def add_option(self, *names: str, **facts: Any) -> None:
        """Add an option. Its environment variable is the default, with the same checks as on the command line.

        Example: --max-body-size takes its default from EXTENDER_SERVICE_MAX_BODY_SIZE.
        """
        variable = ENVIRONMENT_PREFIX + names[-1].removeprefix("--").replace("-", "_").upper()
        option = self.add_argument(*names, **facts)
        self._options.append((variable, option, facts.get("action") == "append"))
        self._by_name.update(dict.fromkeys(option.option_strings, option))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse with defaults from the environment. argparse calls this for a command's parser, too.

        So only the variables of the given command are checked.
        """
        given = {option for option in map(self._option_of, args or ()) if option is not None}
        for variable, option, is_list in self._options:
            value = os.environ.get(variable)
            if value:
                self.set_defaults(**{option.dest: self._checked(variable, value, option, is_list=is_list)})
                given.add(option)
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unrecognized(unknown[0]))
        if self._options:
            namespace.given_options = frozenset(option.option_strings[-1] for option in given)
        return namespace, unknown

    def _option_of(self, argument: str) -> argparse.Action | None:
        """Return the option that an argument names, as --name, --name=value, -n or -nvalue."""
        option = self._by_name.get(argument.partition("=")[0])
        return self._by_name.get(argument[:2]) if option is None and not argument.startswith("--") else option

    def _unrecognized(self, argument: str) -> str:
        if not argument.startswith("-") or argument == "-":
            return f"unrecognized argument {argument!r}"
        name = argument.partition("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        longer = [option for option in known if name.startswith("--") and option.startswith(name)]
        meant = longer or difflib.get_close_matches(name, known, n=1)
        return f"there is no option {name}" + (f": did you mean {' or '.join(meant)}?" if meant else "")

    def _checked(self, variable: str, value: str, option: argparse.Action, *, is_list: bool) -> object:
        parse = option.type or str
        assert callable(parse)
        try:
            if is_list:
                return [parse(part) for part in value.split(",")]
            parsed = parse(value)
        except argparse.ArgumentTypeError as error:
            self.error(f"environment variable {variable}: {error}")
        if option.choices is not None and parsed not in option.choices:
            self.error(f"environment variable {variable}: {value!r} is not one of {', '.join(option.choices)}")
        return parsed

    def error(self, message: str) -> NoReturn:
        """End the process with status 2, and the message in one line."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")
