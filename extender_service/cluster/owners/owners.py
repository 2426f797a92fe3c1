"""Services, controllers, namespaces and disruption budgets: the objects that show which pods belong together."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Any, TypeVar, TypeVarTuple

from msgspec import structs

from extender_service.cluster.owners.disruption_budgets import DisruptionBudget, disruption_budget
from extender_service.cluster.selection.selector_index import SelectorIndex
from extender_service.cluster.structures.memo import Memo
from extender_service.cluster.structures.shown_kinds import ShownKinds
from extender_service.kube.parsing.selectors import Selector, label_set_selector
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.policy import PodDisruptionBudget
from extender_service.kube.types.workloads import Namespace, ReplicaSet, ReplicationController, Service, StatefulSet

A = TypeVarTuple("A")
R = TypeVar("R")
T = TypeVar("T", Service, ReplicaSet, StatefulSet, ReplicationController, Namespace, PodDisruptionBudget)

Workload = Service | ReplicaSet | StatefulSet | ReplicationController | Namespace | PodDisruptionBudget
W = TypeVar("W", bound=Workload)
WORKLOADS: tuple[type[Workload], ...] = (
    Service,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
    Namespace,
    PodDisruptionBudget,
)

# Of selectors of namespaces, and of other results that depend on these objects. Pods make up their keys.
MOST_SELECTIONS = 256
MOST_ANSWERS = 64
_MOST_BYTES = 2 << 20


class Workloads:
    """Objects by type, namespace and name; the namespace of a Namespace is empty.

    `change_count` grows with every change of more than a resource version. `show_only` hides kinds that nothing keeps
    current.
    """

    def __init__(self) -> None:
        self.change_count = 0
        self._objects: dict[type, dict[Key, Any]] = {kind: {} for kind in WORKLOADS}
        self._shown: ShownKinds[dict[Key, Any]] = ShownKinds(self._objects)
        self._services: SelectorIndex[Key] = SelectorIndex()
        self._service_selectors: dict[Key, Selector] = {}
        self._namespace_changes = 0
        self._selections = Memo("namespaces by selector", most_entries=MOST_SELECTIONS, most_bytes=_MOST_BYTES)
        self._budgets: dict[Key, DisruptionBudget] = {}
        self._answers = Memo("results about owners", most_entries=MOST_ANSWERS, most_bytes=_MOST_BYTES)

    def __iter__(self) -> Iterator[Workload]:
        for objects in self._objects.values():
            yield from objects.values()

    def show_only(self, kinds: Container[type]) -> None:
        """Hide all kinds but these from now on."""
        self._shown = ShownKinds((kind, objects) for kind, objects in self._objects.items() if kind in kinds)

    def of(self, kind: type[T]) -> Mapping[Key, T]:
        """All objects of a type. Raises HiddenKindError."""
        return self._shown[kind]

    def find(self, kind: type[W], key: Key) -> W | None:
        """Return an object, None if there is none, also of a kind that is hidden."""
        found: W | None = self._objects[kind].get(key)
        return found

    def apply(self, item: Workload) -> None:
        """Add or update an object."""
        key = key_of(item)
        if _is_new_version(self._objects[type(item)].get(key), item):
            self._objects[type(item)][key] = item
            return
        self.remove(type(item), key)
        self.change_count += 1
        self._objects[type(item)][key] = item
        if isinstance(item, Namespace):
            self._namespace_changes += 1
        if isinstance(item, Service) and item.spec.selector is not None:
            selector = self._service_selectors[key] = label_set_selector(item.spec.selector)
            self._services.add(key, (item.metadata.namespace,), selector)
        budget = disruption_budget(item) if isinstance(item, PodDisruptionBudget) else None
        if budget is not None:
            self._budgets[key] = budget

    def remove(self, kind: type[Workload], key: Key) -> None:
        """Forget an object."""
        if self._objects[kind].pop(key, None) is None:
            return
        self.change_count += 1
        if kind is Namespace:
            self._namespace_changes += 1
        if kind is Service and self._service_selectors.pop(key, None) is not None:
            self._services.remove(key)
        if kind is PodDisruptionBudget:
            self._budgets.pop(key, None)

    def replace(self, kind: type[Workload], items: Iterable[Workload]) -> None:
        """Take over the objects of a type, in place of those that are known."""
        gone = set(self._objects[kind])
        for item in items:
            self.apply(item)
            gone.discard(key_of(item))
        for key in gone:
            self.remove(kind, key)

    def keys(self, kind: type[Workload]) -> list[Key]:
        """The keys of all objects of a type."""
        return list(self._objects[kind])

    def sizes(self) -> dict[str, int]:
        """How many entries each table has, by its name, except selections, which have a limit."""
        return {
            "objects": sum(map(len, self._objects.values())),
            "services": len(self._services),
            "budgets": len(self._budgets),
        }

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return an object, None if there is none. Raises HiddenKindError."""
        return self.of(kind).get((namespace, name))

    def service_selectors(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Mapping[str, str]]:
        """The selectors of the Services that a pod with these labels is part of."""
        services = self.of(Service)
        for key in self._services.candidates(namespace, labels):
            if key[0] == namespace and self._service_selectors[key].matches(labels):
                yield services[key].spec.selector or {}

    def remembered(self, function: Callable[["Workloads", *A], R], *arguments: *A) -> R:
        """Return `function(workloads, *arguments)`, from the last time if no object has changed since.

        The function and its arguments are the key, so give it all that the result depends on, besides these objects, as
        hashable arguments, and make it a function of a module, or a method.
        """
        return self._answers.of(self.change_count, function, (self,), arguments)

    @property
    def answer_count(self) -> int:
        """How many such answers are remembered."""
        return len(self._answers)

    @property
    def disruption_budgets(self) -> Collection[DisruptionBudget]:
        """The budgets that protect pods."""
        return self._budgets.values()

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none for one that is not known. Raises HiddenKindError."""
        found = self.get(Namespace, "", namespace)
        return {} if found is None else found.metadata.labels

    @property
    def selection_count(self) -> int:
        """How many selectors of namespaces are remembered."""
        return len(self._selections)

    def namespaces_selected_by(self, selector: Selector) -> frozenset[str]:
        """Names of the namespaces whose labels are selected."""
        return self._selections.of(self._namespace_changes, Workloads._namespaces_selected_by, (self,), (selector,))

    def _namespaces_selected_by(self, selector: Selector) -> frozenset[str]:
        return frozenset(
            namespace.metadata.name
            for namespace in self.of(Namespace).values()
            if selector.matches(namespace.metadata.labels)
        )


def _is_new_version(known: Workload | None, item: Workload) -> bool:
    """Whether no more than the resource version differs: what else changed is nothing that scheduling reads."""
    if known is None:
        return False
    metadata = structs.replace(known.metadata, resource_version=item.metadata.resource_version)
    return structs.replace(known, metadata=metadata) == item
