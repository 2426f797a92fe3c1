"""Prints a configuration as kube-scheduler's --write-config-to does."""

import yaml

from extender_service.config.syntax import resolve_scalar
from extender_service.config.types import KubeSchedulerConfiguration

_TEXT = "tag:yaml.org,2002:str"


class _Dumper(yaml.SafeDumper):
    """Also quotes texts that only Kubernetes' YAML reader takes for something else, such as y, 08 and 1e2."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(_TEXT, text, style=None if resolve_scalar(text) == text else "'")


_Dumper.add_representer(str, _represent_text)


def dump_config(config: KubeSchedulerConfiguration) -> str:
    """Return the configuration as YAML, with every default, fields in alphabetical order."""
    values = config.model_dump(mode="json", by_alias=True)
    return yaml.dump(values, Dumper=_Dumper, sort_keys=True, allow_unicode=True)
