"""Services, controllers, namespaces and disruption budgets: what tells which pods belong together."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import structs

from extender_service.cluster.owners.disruption_budgets import DisruptionBudget, disruption_budget
from extender_service.cluster.selection.selector_index import SelectorIndex
from extender_service.kube.parsing.selectors import Selector, label_set_selector
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.policy import PodDisruptionBudget
from extender_service.kube.types.workloads import Namespace, ReplicaSet, ReplicationController, Service, StatefulSet

R = TypeVar("R")
T = TypeVar("T", Service, ReplicaSet, StatefulSet, ReplicationController, Namespace, PodDisruptionBudget)

Workload = Service | ReplicaSet | StatefulSet | ReplicationController | Namespace | PodDisruptionBudget
WORKLOADS: tuple[type[Workload], ...] = (
    Service,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
    Namespace,
    PodDisruptionBudget,
)

# More different selectors of namespaces than this are not remembered.
MOST_SELECTIONS = 256
# Nor more answers that follow from these objects: what is asked for by, such as labels, may take half a megabyte each.
MOST_ANSWERS = 64


class Workloads:
    """Objects by type, namespace and name; the namespace of a Namespace is empty.

    `change_count` grows with every change of more than a resource version.
    """

    def __init__(self) -> None:
        self.change_count = 0
        self._objects: dict[type[Workload], dict[Key, Any]] = {kind: {} for kind in WORKLOADS}
        self._services: SelectorIndex[Key] = SelectorIndex()
        self._service_selectors: dict[Key, Selector] = {}
        self._selected_namespaces: dict[Selector, frozenset[str]] = {}
        self._budgets: dict[Key, DisruptionBudget] = {}
        self._answers: dict[Hashable, Any] = {}
        self._answered_at = 0

    def __iter__(self) -> Iterator[Workload]:
        for objects in self._objects.values():
            yield from objects.values()

    def of(self, kind: type[T]) -> Mapping[Key, T]:
        """All objects of a type."""
        return self._objects[kind]

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
            self._selected_namespaces.clear()
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
            self._selected_namespaces.clear()
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
        """How many entries each table has, by its name; but for selections, which have a limit."""
        return {
            "objects": sum(map(len, self._objects.values())),
            "services": len(self._services),
            "budgets": len(self._budgets),
        }

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return an object, None if there is none."""
        return self.of(kind).get((namespace, name))

    def service_selectors(self, namespace: str, labels: Mapping[str, str]) -> Iterable[Mapping[str, str]]:
        """The selectors of the Services that a pod with these labels is part of."""
        services = self.of(Service)
        for key in self._services.candidates(namespace, labels):
            if key[0] == namespace and self._service_selectors[key].matches(labels):
                yield services[key].spec.selector or {}

    def remembered(self, key: Hashable, work_out: Callable[[], R]) -> R:
        """Return what `work_out` made for a key, which names it among all plugins', if no object has changed since.

        It may go by nothing but the key and these objects.
        """
        if self._answered_at == self.change_count and key in self._answers:
            known: R = self._answers[key]
            return known
        answer = work_out()
        if self._answered_at != self.change_count or len(self._answers) == MOST_ANSWERS:
            self._answers.clear()
            self._answered_at = self.change_count
        self._answers[key] = answer
        return answer

    @property
    def answer_count(self) -> int:
        """How many such answers are remembered."""
        return len(self._answers)

    @property
    def disruption_budgets(self) -> Collection[DisruptionBudget]:
        """The budgets that protect pods."""
        return self._budgets.values()

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; none for one that is not known."""
        found = self.get(Namespace, "", namespace)
        return {} if found is None else found.metadata.labels

    @property
    def selection_count(self) -> int:
        """How many selectors of namespaces are remembered."""
        return len(self._selected_namespaces)

    def namespaces_selected_by(self, selector: Selector) -> frozenset[str]:
        """Names of the namespaces whose labels are selected."""
        names = self._selected_namespaces.get(selector)
        if names is None:
            if len(self._selected_namespaces) >= MOST_SELECTIONS:
                self._selected_namespaces.clear()
            names = self._selected_namespaces[selector] = frozenset(
                namespace.metadata.name
                for namespace in self.of(Namespace).values()
                if selector.matches(namespace.metadata.labels)
            )
        return names


def _is_new_version(known: Workload | None, item: Workload) -> bool:
    """Whether no more than the resource version differs: what else changed is nothing that scheduling reads."""
    if known is None:
        return False
    metadata = structs.replace(known.metadata, resource_version=item.metadata.resource_version)
    return structs.replace(known, metadata=metadata) == item
