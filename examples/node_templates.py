"""Which kind of node would unblock the pods that wait? An autoscaler's question, answered by the scheduler itself.

    python examples/node_templates.py --cluster-file cluster.yaml --templates templates.yaml

The templates are Node manifests. For each, this prints how many such nodes have a use, which pods then have a place,
and why such a node would not take the others.
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from extender_service.plugin_api import Node, Pod
from extender_service.simulation import Simulation

HOSTNAME = "kubernetes.io/hostname"
# A group of nodes of one kind is not made larger than this.
MOST_NODES = 100


class Answer(NamedTuple):
    """How many nodes of a template have a use, the pods that they unblock, and why one would not take the others."""

    template: str
    nodes: int
    unblocked: list[str]
    refusals: dict[str, str]


async def ask(template: Node, cluster_files: Sequence[Path]) -> Answer:
    """Add nodes of a template one by one, for as long as each gives a place to another pod."""
    async with Simulation(files=cluster_files) as simulation:
        await simulation.settle()
        blocked = waiting(simulation)
        unblocked: list[str] = []
        for number in range(1, MOST_NODES + 1):
            added = made_from(template, number)
            simulation.create(added)
            await simulation.settle()
            still = waiting(simulation)
            now = [name for name in blocked if name not in still]
            if len(now) == len(unblocked):
                simulation.delete(added)
                refusals = {name: simulation.refusal(pod, added) for name, pod in still.items()}
                return Answer(template.metadata.name, number - 1, unblocked, refusals)
            unblocked = now
        return Answer(template.metadata.name, MOST_NODES, unblocked, {})


def waiting(simulation: Simulation) -> dict[str, Pod]:
    """Return the pods that fit nowhere by name. An autoscaler does nothing for gated ones and those of others."""
    unfit = {(each.namespace, each.name) for each in simulation.outcomes() if each.reason == "Unschedulable"}
    return {
        f"{pod.metadata.namespace}/{pod.metadata.name}": pod
        for pod in simulation.pods
        if (pod.metadata.namespace, pod.metadata.name) in unfit
    }


def made_from(template: Node, number: int) -> Node:
    """Return a node of a template, with a name of its own."""
    name = f"{template.metadata.name}-{number}"
    labels = {**template.metadata.labels, HOSTNAME: name}
    return structs.replace(template, metadata=structs.replace(template.metadata, name=name, uid=name, labels=labels))


def main() -> None:
    """Ask about each template."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cluster-file", type=Path, action="append", required=True)
    options.add_argument("--templates", type=Path, action="append", required=True)
    given = options.parse_args()
    for template in Simulation(files=given.templates).nodes:
        answer = asyncio.run(ask(template, given.cluster_file))
        print(f"{answer.template}: {answer.nodes} nodes unblock {', '.join(answer.unblocked) or 'no pod'}")
        for name, refusal in answer.refusals.items():
            print(f"  {name}: {refusal or 'would fit on such a node, but not beside what runs elsewhere'}")


if __name__ == "__main__":
    main()
