"""A whole scheduler in memory: for a cluster that a file describes, for what-if questions, and for tests of plugins.

    async with Simulation(files=[Path("cluster.yaml")]) as simulation:
        simulation.create(template)  # a node that is not there yet
        await simulation.settle()
        outcomes = simulation.outcomes()

It runs the queue, the scheduling cycle and the binding cycle of `extender-service schedule`. In the API server's place
are objects in memory, and in the clock's place is a time that passes at once. Stable are the names in `__all__`, as
`extender_service.plugin_api` says. `simulation.events` are Occurrences. Of `KubeSchedulerConfiguration` and `Rules`,
which a program passes that has read them, only the names are stable: pass the text of a configuration, and a release.
"""

from extender_service.config.rules import Rules
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.kube.writing.event_recorder import ObjectReference, Occurrence
from extender_service.simulation.pod_outcome import PodOutcome
from extender_service.simulation.simulation import Simulation

__all__ = ["KubeSchedulerConfiguration", "ObjectReference", "Occurrence", "PodOutcome", "Rules", "Simulation"]
