"""What there is in a cluster, drawn by seed: who acts in it, and which features its nodes and pods use.

Each world has some of all that (swarm testing): what is left out makes room for what would otherwise hide behind it.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Final

ACTORS: Final = (
    "autoscaler", "daemon-sets", "jobs", "machine-troubles", "node-lifecycle", "people", "pod-collection",
    "replica-sets", "second-scheduler", "volumes",
)  # fmt: skip
FEATURES: Final = (
    "deletions", "gates", "namespaces", "node-affinity", "pod-affinity", "ports", "priorities", "scarcity", "spread",
    "taints", "volume-limits",
)  # fmt: skip
# Drawn behind all else, so that what a seed has otherwise stays as it was before this came.
_LATER_FEATURES: Final = ("same-names",)
# Only what is wanted by name, as no seed had it before it came:
# - bursts: ReplicaSets have tens of pods
# - crowds: many pods have a gate, which opens soon, as that of a quota
# - hopeless: many pods fit nowhere, and soon go
# - batches: Jobs have tens of small pods, which come at once
# - shared-claims: with volumes, some pods have the claim of an earlier one
EXTRAS: Final = ("bursts", "crowds", "hopeless", "batches", "shared-claims")
# The same, and what no seed draws either, as it takes long: a pool of a hundred nodes that are alike.
POOL: Final = "pool"
# Later ones of both, drawn apart from these (`draw_newer`), so that a swarm from before they came stays as it was:
# - slow-volumes: some volumes take longer to be made than a binding waits for them, 3 s or 5 s
# - narrow-sampling: three feasible nodes are enough where a scheduler looks at some of the nodes only
# - patient: some pods are of a priority class that preempts no others
# - sidecars: some pods have init containers that go on to run
# - devices: a device plugin reports a node's devices a while after its kubelet has started, and fails at times
# - resizes: people take from what pods request
# - rival: where `serve` and its scheduler are a pair (leader-lease), another pair stands by for their lease
# - start-times: kubelets report when they started a pod, which preemption orders its victims by
# - budgets: the pods of each app have a PodDisruptionBudget from the start
# - late-calls: a scheduler that has lost the lease asks `serve` about pods that have gone since
# - small-limits: limits of programs are a few instead of tens or thousands
# - lease-notes: people and tools annotate the lease of schedulers
# - gangs: a user's plugin binds the pods of an app several at once
# - picky-extender: another extender does not agree to all victims
NEWER: Final = (
    "slow-volumes", "narrow-sampling", "patient", "sidecars", "devices", "resizes", "rival", "start-times",
    "budgets", "late-calls", "small-limits", "lease-notes", "gangs", "picky-extender",
)  # fmt: skip
_NEWER_RATES: Final = (0.0, 0.3, 0.6)
# What is of no use without an actor.
_NEEDS: Final = {"slow-volumes": "volumes"}
# What settings of programs bring with them: many pods name the second profile; and users of a plugin write its objects.
_OF_SETTINGS: Final = ("moods", "profiles")
_BY_NAME: Final = (*FEATURES, *_LATER_FEATURES, *EXTRAS, POOL, *NEWER, *_OF_SETTINGS)
_LEAST_NODES: Final = 5
_MOST_NODES: Final = 50
_MOST_PODS: Final = 200


@dataclass(frozen=True)
class Draft:
    """`zones` is their number; `sizes` the cpus of the kinds of nodes."""

    actors: frozenset[str]
    features: frozenset[str]
    zones: int
    sizes: tuple[int, ...]


def draw_draft(random: Random, wanted: frozenset[str] = frozenset()) -> Draft:
    """Draw who acts, and what pods and nodes are like; what is `wanted` is there in any case."""
    rate = random.choice((0.3, 0.6, 0.9))
    draft = Draft(
        actors=frozenset([name for name in ACTORS if random.random() < rate]),
        features=frozenset([name for name in FEATURES if random.random() < rate]),
        zones=random.randint(1, 3),
        sizes=tuple(random.choice((1, 2, 4, 8)) for _ in range(random.randint(1, 3))),
    )
    later = frozenset([name for name in _LATER_FEATURES if random.random() < rate])
    return replace(
        draft,
        actors=draft.actors | wanted.intersection(ACTORS) | {_NEEDS[name] for name in _NEEDS.keys() & wanted},
        features=draft.features | later | wanted.intersection(_BY_NAME),
    )


def draw_newer(seed: int) -> frozenset[str]:
    """Draw some of what no swarm has, each by itself."""
    rate = Random(f"how much is newer {seed}").choice(_NEWER_RATES)
    return frozenset(name for name in NEWER if Random(f"newer {name} {seed}").random() < rate)


def draw_counts(random: Random) -> tuple[int, int]:
    """Draw how many nodes and pods a cluster has: of small ones more than of large ones."""
    nodes = round(_LEAST_NODES * (_MOST_NODES / _LEAST_NODES) ** random.random())
    return nodes, random.randint(_LEAST_NODES, _MOST_PODS)
