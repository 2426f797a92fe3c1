"""The base type of plugin arguments, with their defaults and their check.

Each plugin defines its own type. `load_config` gets the types by plugin name, and imports no plugin itself.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, Self

from extender_service.config.model import Model
from extender_service.config.problems import Problem
from extender_service.config.rules import Rules

ApiVersion = Literal["kubescheduler.config.k8s.io/v1"]
API_VERSION: ApiVersion = "kubescheduler.config.k8s.io/v1"


class PluginArgs(Model):
    """Base of the arguments of in-tree plugins. In a file, apiVersion and kind may be left out."""

    api_version: ApiVersion = API_VERSION

    # False if kube-scheduler checks them only when it makes the plugin: a profile without the plugin may hold anything.
    checked_when_off: ClassVar[bool] = True

    @classmethod
    def are_in(cls, rules: Rules) -> bool:
        """Return whether a release has these arguments. Before, a configuration may hold anything in their place."""
        del rules
        return True

    def with_defaults(self, rules: Rules) -> Self:
        """Return the arguments with the defaults that depend on the release. Constant defaults are on the fields."""
        del rules
        return self

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Yield every problem that makes kube-scheduler refuse the arguments, which the configuration has at `path`."""
        del path, rules
        yield from ()


# By the name of the plugin.
ArgsTypes = Mapping[str, type[PluginArgs]]
