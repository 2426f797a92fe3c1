"""What the arguments of a plugin are to a configuration: a type, with its defaults and its check.

The types stand beside their plugins. `load_config` takes them by the names of the plugins, and knows no plugin itself.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, Self

from extender_service.config.model import Model
from extender_service.config.problems import Problem
from extender_service.config.release import FeatureGates

ApiVersion = Literal["kubescheduler.config.k8s.io/v1"]
API_VERSION: ApiVersion = "kubescheduler.config.k8s.io/v1"


class PluginArgs(Model):
    """Base of the arguments of in-tree plugins. In a file, apiVersion and kind may be left out."""

    api_version: ApiVersion = API_VERSION

    # False if kube-scheduler checks only when it makes the plugin: a profile without the plugin may then hold anything.
    checked_when_off: ClassVar[bool] = True

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return the arguments with the defaults that depend on feature gates. Fields have the constant ones."""
        del gates
        return self

    def check(self, path: str, gates: FeatureGates) -> Iterator[Problem]:
        """Yield all that kube-scheduler would refuse; `path` is that of the arguments in the configuration."""
        del path, gates
        yield from ()


# By the name of the plugin.
ArgsTypes = Mapping[str, type[PluginArgs]]
