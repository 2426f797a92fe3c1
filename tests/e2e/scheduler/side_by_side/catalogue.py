"""All scenarios by name, and the configuration that both schedulers have."""

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final

from tests.e2e.scheduler.side_by_side.scenarios import nodes, preemption, resources, topology, volumes, waiting
from tests.e2e.scheduler.side_by_side.steps import Scenario

CONFIGURATION: Final = {
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 1,
    "profiles": [
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "packing",
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            ],
        },
        {
            "schedulerName": "lenient",
            "plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}, {"name": "DefaultPreemption"}]}},
        },
    ],
}


def _scenarios_of(module: ModuleType) -> Mapping[str, Callable[[], Scenario]]:
    """Public functions of the module, in their order."""
    functions = inspect.getmembers(module, inspect.isfunction)
    own = [(name, each) for name, each in functions if each.__module__ == module.__name__ and not name.startswith("_")]
    return dict(sorted(own, key=lambda found: found[1].__code__.co_firstlineno))


SCENARIOS: Final = {
    name: scenario
    for module in (resources, nodes, topology, waiting, preemption, volumes)
    for name, scenario in _scenarios_of(module).items()
}
