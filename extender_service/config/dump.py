"""Prints a configuration as kube-scheduler's --write-config-to does."""

import yaml

from extender_service.config.types import KubeSchedulerConfiguration


def dump_config(config: KubeSchedulerConfiguration) -> str:
    """Return the configuration as YAML, with every default, fields in alphabetical order."""
    return yaml.safe_dump(config.model_dump(mode="json", by_alias=True), sort_keys=True, allow_unicode=True)
