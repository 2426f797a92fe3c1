"""A cluster in which most stays as it is, and much comes and goes."""

import random
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from bench import synthetic
from extender_service.kube.resources.api_resources import NODES, PODS, Resource
from extender_service.kube.types.keys import Key
from tests.soak import visitors
from tests.soak.visitors import Belonging, Manifest

# So many pods may wait for a node; no more come until one of them has got one.
_MOST_PENDING = 100
# What changes get other numbers than what comes, so that their values are new, too.
_CHANGES = 1 << 40


class Event(NamedTuple):
    """A change, as a watch tells of it."""

    type: str
    resource: Resource[Any]
    manifest: Manifest


# What is to be done, which may turn out to be nothing.
_Change = Callable[[], Event | None]


class _Stay(NamedTuple):
    pod: Key
    belongings: list[Belonging]


def key_of(manifest: Manifest) -> Key:
    """Namespace and name."""
    metadata = manifest["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


class Churn:
    """The objects of the cluster, and what becomes of them: each `step` is one change.

    `nodes` and `pods` stay; a tenth as many more come and go, pods with what belongs to them, and every node is changed
    now and then. `objects` are by plural name. `pending` are the visitors that nobody has placed yet, in the order in
    which they came; whoever asks about one takes it out.
    """

    def __init__(self, nodes: int, pods: int, *, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._visitors, self._new_nodes, self._changes = count(1), count(1), count(_CHANGES)
        self._version = 1000
        self.objects: dict[str, dict[Key, Manifest]] = {}
        self.pending: deque[Key] = deque()
        self._bindable: set[Key] = set()
        self._stays: deque[_Stay] = deque()
        self._visiting_nodes: deque[tuple[int, Key]] = deque()
        self._most_pods, self._most_nodes = max(pods // 10, 20), max(nodes // 10, 2)
        self._due: deque[_Change] = deque()
        self._residents: dict[Key, Manifest] = {}
        self._changed: set[Key] = set()
        for index in range(nodes):
            node = synthetic.node(index, 20)
            self._residents[key_of(node)] = node
            self._put(NODES, node)
        for pod in synthetic.running_pods(nodes, pods // nodes, unique_labels=True):
            self._put(PODS, pod)
        self._resident_nodes = list(self._residents)

    @property
    def version(self) -> int:
        """The resource version of the last change."""
        return self._version

    def of(self, resource: Resource[Any]) -> dict[Key, Manifest]:
        """All objects of a kind."""
        return self.objects.setdefault(resource.plural, {})

    @property
    def node_names(self) -> list[str]:
        """The names of all nodes."""
        return [name for _, name in self.of(NODES)]

    def step(self) -> Event:
        """Make one change."""
        while True:
            for event in self._happen():
                return event
            self._decide()

    def fill(self) -> None:
        """Let as many visitors come as there will be from then on, and bind them anywhere."""
        while len(self._stays) < self._most_pods or len(self._visiting_nodes) < self._most_nodes:
            self.step()
            while self.pending:
                key = self.pending.popleft()
                if self.is_bindable(key):
                    self.bind(key, self._random.choice(self._resident_nodes)[1])

    def bind(self, key: Key, node_name: str) -> Event | None:
        """Write into a pod where it runs, if it is still there, waits for a node, and the node is there, too."""
        pod = self.of(PODS).get(key)
        if pod is None or "nodeName" in pod["spec"] or ("", node_name) not in self.of(NODES):
            return None
        return self._change(PODS, key, lambda pod: _with(pod, "spec", nodeName=node_name))

    def is_bindable(self, key: Key) -> bool:
        """Whether a visitor can be bound without anything else being done."""
        return key in self._bindable

    def clear(self) -> Iterator[Event]:
        """Let all visitors go, and give the nodes that stay back what they were: nothing new is left."""
        yield from self._happen()
        while self._stays:
            self._leave()
        while self._visiting_nodes:
            self._retire_node()
        self._due.extend(partial(self._restore_node, key) for key in sorted(self._changed))
        self._changed.clear()
        yield from self._happen()

    def _happen(self) -> Iterator[Event]:
        """All that is planned."""
        while self._due:
            event = self._due.popleft()()
            if event is not None:
                yield event

    def _decide(self) -> None:
        """Plan what happens next."""
        roll = self._random.random()
        if roll < 0.01:
            self._bring_node()
            if len(self._visiting_nodes) > self._most_nodes:
                self._retire_node()
        elif roll < 0.10:
            self._change_node()
        elif len(self._stays) > self._most_pods:
            self._leave()
        elif roll < 0.50 and len(self.pending) < _MOST_PENDING:
            self._arrive()
        elif self._stays:
            self._change_pod()

    def _arrive(self) -> None:
        visitor = visitors.visitor(next(self._visitors))
        key = key_of(visitor.pod)
        self._due.extend(partial(self._put, *belonging) for belonging in visitor.belongings)

        def come() -> Event:
            self.pending.append(key)
            return self._put(PODS, visitor.pod)

        self._due.append(come)
        self._stays.append(_Stay(key, visitor.belongings))
        if visitor.bindable:
            self._bindable.add(key)

    def _leave(self) -> None:
        """The pod that came first goes, with all that belongs to it, in any order."""
        stay = self._stays.popleft()
        self._due.append(lambda: self._change(PODS, stay.pod, _terminating))
        self._plan_in_any_order([partial(self._remove_pod, stay.pod), *map(self._removal, stay.belongings)])

    def _change_pod(self) -> None:
        """A pod that runs says so, or is given other labels."""
        key = self._random.choice(self._stays).pod
        number = next(self._changes)
        pod = self.of(PODS).get(key)
        if pod is not None and pod["status"]["phase"] == "Pending" and "nodeName" in pod["spec"]:
            since = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
            self._due.append(
                lambda: self._change(PODS, key, lambda pod: _with(pod, "status", phase="Running", startTime=since))
            )
        else:
            labels = visitors.labels(number)
            self._due.append(lambda: self._change(PODS, key, lambda pod: _with(pod, "metadata", labels=labels)))

    def _bring_node(self) -> None:
        number = next(self._new_nodes)
        node = visitors.node(number)
        self._visiting_nodes.append((number, key_of(node)))
        arriving = [Belonging(NODES, node), *visitors.node_belongings(number)]
        self._plan_in_any_order([partial(self._put, *item) for item in arriving])

    def _retire_node(self) -> None:
        """The visiting node that came first goes, and then the pods on it."""
        number, key = self._visiting_nodes.popleft()
        belongings = visitors.node_belongings(number)
        self._plan_in_any_order([partial(self._remove, NODES, key), *map(self._removal, belongings)])
        # They are looked for once the node is gone: until then, pods are bound to it.
        self._due.append(lambda: self._evict(key[1]))

    def _evict(self, node_name: str) -> None:
        left = [stay.pod for stay in self._stays if _is_on(self.of(PODS).get(stay.pod), node_name)]
        self._due.extend(partial(self._remove_pod, pod) for pod in left)

    def _change_node(self) -> None:
        """A node is alive, or is given what no node had before."""
        key = self._random.choice(self._resident_nodes)
        if self._random.random() < 0.5:
            self._due.append(lambda: self._change(NODES, key, lambda node: node))
        else:
            self._changed.add(key)
            changed = visitors.changed_node(self._residents[key], next(self._new_nodes))
            self._due.append(lambda: self._change(NODES, key, lambda _: changed))

    def _restore_node(self, key: Key) -> Event | None:
        return self._change(NODES, key, lambda _: self._residents[key])

    def _plan_in_any_order(self, changes: list[_Change]) -> None:
        self._random.shuffle(changes)
        self._due.extend(changes)

    def _removal(self, item: Belonging) -> _Change:
        return partial(self._remove, item.resource, key_of(item.manifest))

    def _put(self, resource: Resource[Any], manifest: Manifest) -> Event:
        return self._write("ADDED", resource, manifest)

    def _change(self, resource: Resource[Any], key: Key, change: Callable[[Manifest], Manifest]) -> Event | None:
        """Change an object, if it is still there."""
        manifest = self.of(resource).get(key)
        return None if manifest is None else self._write("MODIFIED", resource, change(manifest))

    def _remove_pod(self, key: Key) -> Event | None:
        if key in self.pending:
            self.pending.remove(key)
        self._bindable.discard(key)
        return self._remove(PODS, key)

    def _remove(self, resource: Resource[Any], key: Key) -> Event | None:
        manifest = self.of(resource).pop(key, None)
        if manifest is None:
            return None
        return Event("DELETED", resource, self._versioned(manifest))

    def _write(self, event_type: str, resource: Resource[Any], manifest: Manifest) -> Event:
        manifest = self._versioned(manifest)
        self.of(resource)[key_of(manifest)] = manifest
        return Event(event_type, resource, manifest)

    def _versioned(self, manifest: Manifest) -> Manifest:
        self._version += 1
        return _with(manifest, "metadata", resourceVersion=str(self._version))


def _with(manifest: Manifest, part: str, **changes: object) -> Manifest:
    return {**manifest, part: {**manifest[part], **changes}}


def _terminating(pod: Manifest) -> Manifest:
    return _with(pod, "metadata", deletionTimestamp="2026-01-02T00:00:00Z")


def _is_on(pod: Manifest | None, node_name: str) -> bool:
    return pod is not None and pod["spec"].get("nodeName") == node_name
