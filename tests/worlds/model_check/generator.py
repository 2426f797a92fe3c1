"""Random scripts: mostly valid requests, some wrong ones, about few objects, so that they meet."""

import base64
import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.worlds.api_server.server import RESIZES_SINCE
from tests.worlds.model_check import objects
from tests.worlds.model_check.objects import NAMES, NODES
from tests.worlds.model_check.script import LAST, Script, Step

Object = dict[str, Any]

# Versions that are older than each window and compacted, and that are never reached.
OLD, FUTURE = "1", "9000000000"
_MERGE, _STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
_NO_UID = "00000000-0000-0000-0000-000000000000"
_FEWEST_STEPS, _MOST_STEPS = 10, 30


def generate(seed: int, minor: int) -> Script:
    """Return the script of a seed for a release: 31 is Kubernetes 1.31."""
    return _Generator(seed, minor).script()


class _Generator:
    def __init__(self, seed: int, minor: int) -> None:
        self._seed = seed
        self._minor = minor
        self._random = Random(seed)
        self._steps: list[Step] = []
        self._lists: list[tuple[int, str]] = []
        self._watched: set[str] = set()

    def script(self) -> Script:
        actions = self._actions()
        for _ in range(self._random.randint(_FEWEST_STEPS, _MOST_STEPS)):
            action = self._random.choices([action for action, _ in actions], [weight for _, weight in actions])[0]
            action()
        self._end_watches()
        return Script(self._seed, tuple(self._steps))

    def _actions(self) -> list[tuple[Callable[[], None], int]]:
        """Each script has a taste of its own: it uses some actions much and others not at all."""
        usual = [
            (self._create_pod, 10), (self._patch_pod, 6), (self._patch_pod_status, 6), (self._put_pod, 3),
            (self._bind, 8), (self._evict, 5), (self._delete_pod, 6), (self._get, 4), (self._list, 5),
            (self._watch, 4), (self._page, 4), (self._create_node, 3), (self._change_node, 4),
            (self._delete_node, 2), (self._budget, 5), (self._lease, 3), (self._workload, 3), (self._storage, 3),
            (self._event, 2), (self._other, 5), (self._wrong, 1), (self._remove_finalizers, 3), (self._read_old, 3),
            (self._read_future, 1),
        ]  # fmt: skip
        if self._minor >= RESIZES_SINCE:
            usual.append((self._resize, 5))
        return [(action, weight * self._random.choice([0, 1, 1, 3])) for action, weight in usual] + [
            (self._create_pod, 1)
        ]

    def _add(self, method: str, path: str, body: Object | str | None = None, **options: Any) -> int:
        self._steps.append(Step(len(self._steps), method, path, body, **options))
        return len(self._steps) - 1

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _name(self) -> str:
        return self._random.choice(NAMES)

    def _node(self) -> str:
        return self._random.choice(NODES)

    def _create_pod(self) -> None:
        query = {"dryRun": "All"} if self._chance(0.03) else {}
        self._add("POST", "v1/pods", objects.pod(self._random, self._name()), query=query)

    def _metadata_patch(self, path: str) -> Object:
        changes: list[Object] = [
            {"labels": objects.labels(self._random)},
            {"labels": {"app": None}},
            {"annotations": {"note": self._random.choice(["1", "2", None])}},
            {"finalizers": ["example.com/hold"]},
            {"finalizers": None},
            {},
        ]
        metadata = self._random.choice(changes)
        if self._chance(0.2):
            metadata["resourceVersion"] = self._random.choice([f"{{rv:{_plain(path)}}}", f"{{rv:{_plain(path)}}}", "1"])
        if self._chance(0.2):
            metadata["uid"] = self._random.choice([f"{{uid:{_plain(path)}}}", _NO_UID])
        return {"metadata": metadata}

    def _patch_type(self) -> str:
        return self._random.choice([_MERGE, _STRATEGIC, _STRATEGIC])

    def _patch_pod(self) -> None:
        name = self._name()
        body = self._metadata_patch(f"pods/{name}")
        if self._chance(0.3):
            body["spec"] = self._random.choice(
                [
                    {"nodeName": NODES[0]},
                    {"schedulingGates": None},
                    {"containers": [{"name": "main", "image": "registry.example/main:2"}]},
                    {"tolerations": [{"key": "b", "operator": "Exists"}]},
                    {"activeDeadlineSeconds": 5},
                    {"nodeSelector": {"zone": "2"}},
                ]
            )
        self._add("PATCH", f"v1/pods/{name}", body, content_type=self._patch_type())

    def _patch_pod_status(self) -> None:
        name = self._name()
        body: Object = {"status": objects.pod_status(self._random)}
        if self._chance(0.2):
            body.update(self._metadata_patch(f"pods/{name}"))
        self._add("PATCH", f"v1/pods/{name}/status", body, content_type=_STRATEGIC)

    def _put_pod(self) -> None:
        name = self._name()
        change: Object = {"metadata": {"labels": objects.labels(self._random)}}
        if self._chance(0.3):
            change["metadata"]["resourceVersion"] = self._random.choice([None, "1"])
        if self._chance(0.1):
            change["metadata"]["uid"] = None
        if self._chance(0.2):
            change["status"] = {"phase": "Running"}
        subresource = "/status" if self._chance(0.3) else ""
        self._add("PUT", f"v1/pods/{name}{subresource}", change, start=f"pods/{name}")

    def _bind(self) -> None:
        name = self._name()
        metadata: Object = {"name": name}
        if self._chance(0.6):
            metadata["uid"] = f"{{uid:pods/{name}}}"
        if self._chance(0.1):
            metadata["uid"] = _NO_UID
        if self._chance(0.1):
            metadata["resourceVersion"] = f"{{rv:pods/{name}}}"
        if self._chance(0.2):
            metadata["annotations"] = {"from": "binding", "note": "3"}
        if self._chance(0.1):
            metadata["labels"] = {"from": "binding"}
        target = {"apiVersion": "v1", "kind": "Node", "name": self._node()}
        if self._chance(0.05):
            target = self._random.choice([{"kind": "Node"}, {"kind": "Pod", "name": "x"}, {"name": NODES[1]}])
        if self._chance(0.03):
            metadata["name"] = "other"
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        self._add("POST", f"v1/pods/{name}/binding", body)

    def _evict(self) -> None:
        name = self._name()
        body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        if self._chance(0.5):
            options = self._delete_options(f"pods/{name}")
            if "resourceVersion" not in options.get("preconditions", {}):
                options.pop("preconditions", None)  # a conflict would be tried again for ten seconds
            body["deleteOptions"] = options
        self._add("POST", f"v1/pods/{name}/eviction", body)

    def _delete_options(self, path: str) -> Object:
        options: Object = {}
        if self._chance(0.4):
            options["gracePeriodSeconds"] = self._random.choice([0, 1, 60, -1])
        if self._chance(0.4):
            uid = self._random.choice([f"{{uid:{_plain(path)}}}", f"{{uid:{_plain(path)}}}", _NO_UID])
            options["preconditions"] = {"uid": uid}
        if self._chance(0.15):
            options.setdefault("preconditions", {})["resourceVersion"] = self._random.choice(
                [f"{{rv:{_plain(path)}}}", "1"]
            )
        if self._chance(0.1):
            options["propagationPolicy"] = self._random.choice(["Background", "Foreground", "Orphan", "Wrong"])
        if self._chance(0.04):
            options["dryRun"] = ["All"]
        return options

    def _delete_pod(self) -> None:
        name = self._name()
        body = self._delete_options(f"pods/{name}") if self._chance(0.8) else None
        self._add("DELETE", f"v1/pods/{name}", body)

    def _resize(self) -> None:
        name = self._name()
        path, choice = f"v1/pods/{name}/resize", self._random.random()
        if choice < 0.05:
            self._add("GET", path)
            return
        content_type = "application/json" if choice < 0.2 else self._patch_type()
        is_strategic = content_type == _STRATEGIC
        body: Object = self._metadata_patch(f"pods/{name}") if self._chance(0.2) else {}
        body["spec"] = {"containers": [objects.resized_container(self._random, is_strategic=is_strategic)]}
        if choice < 0.2:
            self._add("PUT", path, body, start=f"pods/{name}")
        else:
            self._add("PATCH", path, body, content_type=content_type)

    def _remove_finalizers(self) -> None:
        self._add("PATCH", f"v1/pods/{self._name()}", {"metadata": {"finalizers": None}}, content_type=_MERGE)

    def _get(self) -> None:
        query = {"resourceVersion": "0"} if self._chance(0.2) else {}
        if self._chance(0.3):
            self._add("GET", f"v1/nodes/{self._node()}", query=query, is_namespaced=False)
        else:
            self._add("GET", f"v1/pods/{self._name()}", query=query)

    def _collection(self) -> tuple[str, bool]:
        return self._random.choice(
            [("v1/pods", True), ("v1/pods", True), ("v1/nodes", False), ("policy/v1/poddisruptionbudgets", True)]
        )

    def _selectors(self, path: str, *, for_watch: bool) -> dict[str, str]:
        """Selectors that the last object of a watch matches; what is in no namespace is the script's by a label."""
        query: dict[str, str] = {}
        if path == "v1/nodes":
            query["labelSelector"] = "script={ns}"
        elif self._chance(0.4):
            query["labelSelector"] = self._random.choice(["app=x", "app in (x,y),tier!=1", "app", "tier notin (1,2)"])
            if not for_watch and self._chance(0.3):
                query["labelSelector"] = self._random.choice(["!app", "app!=x", "a b", "app=="])
        if path == "v1/pods" and self._chance(0.5):
            query["fieldSelector"] = self._random.choice(
                ["status.phase!=Succeeded,status.phase!=Failed", "spec.nodeName=", f"spec.nodeName={NODES[0]}"]
            )
            if not for_watch and self._chance(0.3):
                query["fieldSelector"] = self._random.choice(["metadata.name=a", "spec.wrong=1", "status.phase"])
        return query

    def _list(self) -> None:
        path, is_namespaced = self._collection()
        versions = ["", "", "0", *(f"{{list:{number}}}" for number, of in self._lists if of == path)]
        self._list_at(self._random.choice(versions), path, is_namespaced)

    def _list_at(self, version: str, path: str, is_namespaced: bool) -> None:
        query = self._selectors(path, for_watch=False)
        if version:
            query["resourceVersion"] = version
        if self._chance(0.3):
            query["resourceVersionMatch"] = self._random.choice(["NotOlderThan", "Exact", "Exact", "Wrong"])
        if path != "v1/nodes" and self._chance(0.3) and version != "0":
            query["limit"] = self._random.choice(["1", "2", "500"])
        number = self._add("GET", path, query=query, is_namespaced=is_namespaced)
        self._lists.append((number, path))

    def _page(self) -> None:
        """A page of a list: the first, or one that goes on from an earlier one."""
        path, is_namespaced = self._collection()
        if not is_namespaced:
            return  # the nodes of other scripts would be on the pages
        earlier = [number for number, of in self._lists if of == path]
        query = {"limit": self._random.choice(["1", "2"])}
        if earlier and self._chance(0.6):
            query["continue"] = f"{{token:{self._random.choice(earlier)}}}"
        if self._chance(0.03):
            query["continue"] = "wrong"
        number = self._add("GET", path, query=query, is_namespaced=is_namespaced)
        self._lists.append((number, path))

    def _watch(self) -> None:
        path, is_namespaced = self._collection()
        versions = ["", "0", *(f"{{list:{number}}}" for number, of in self._lists[-2:] if of == path)]
        self._watch_at(self._random.choice(versions), path, is_namespaced)

    def _watch_at(self, version: str, path: str, is_namespaced: bool) -> None:
        query = {"watch": "1", **self._selectors(path, for_watch=True)}
        if version:
            query["resourceVersion"] = version
        if self._chance(0.3):
            query["allowWatchBookmarks"] = "true"
        if self._chance(0.15):
            query.update(sendInitialEvents="true", allowWatchBookmarks="true")
            if self._chance(0.8):
                query["resourceVersionMatch"] = "NotOlderThan"
        self._add("GET", path, query=query, is_namespaced=is_namespaced)
        self._watched.add(path)

    def _read_old(self) -> None:
        """A read at a version that is gone. A list is refused only if it asks for just that version."""
        path, is_namespaced = self._collection()
        choice = self._random.random()
        if choice < 0.5:
            self._watch_at(OLD, path, is_namespaced)
        elif choice < 0.9:
            self._list_at(OLD, path, is_namespaced)
        else:
            self._page_at(OLD)

    def _read_future(self) -> None:
        """A read at a version that does not come. Most are watches: the API server refuses others after 3 s."""
        path, is_namespaced = self._collection()
        choice = self._random.random()
        if choice < 0.7:
            query = {"watch": "1", "resourceVersion": FUTURE, **self._selectors(path, for_watch=True)}
            # Nothing comes, not even a last object.
            self._add("GET", path, query={**query, "timeoutSeconds": "1"}, is_namespaced=is_namespaced)
        elif choice < 0.78:
            query = {"watch": "1", "resourceVersion": FUTURE, "resourceVersionMatch": "NotOlderThan"}
            query.update(sendInitialEvents="true", allowWatchBookmarks="true")
            self._add("GET", path, query=query, is_namespaced=is_namespaced)
        elif choice < 0.9:
            self._list_at(FUTURE, path, is_namespaced)
        elif choice < 0.95:
            self._page_at(FUTURE)
        else:
            self._add("GET", f"v1/pods/{self._name()}", query={"resourceVersion": FUTURE})

    def _page_at(self, version: str) -> None:
        """A page that goes on from one that showed a version."""
        token = json.dumps({"v": "meta.k8s.io/v1", "rv": int(version), "start": "a\0"}).encode()
        query = {"limit": "2", "continue": base64.urlsafe_b64encode(token).decode().rstrip("=")}
        self._add("GET", "v1/pods", query=query)

    def _end_watches(self) -> None:
        """Create the objects up to which watches are read: each matches every selector, or one of two does."""
        plain = Random(0)
        if "v1/pods" in self._watched:
            for name, node in (("waiting", ""), ("running", NODES[0])):
                pod = {
                    "metadata": {"name": f"{LAST}{name}", "labels": {"app": "x"}},
                    "spec": {"containers": [{"name": "main", "image": "i:1"}], **({"nodeName": node} if node else {})},
                }
                self._add("POST", "v1/pods", pod)
        if "v1/nodes" in self._watched:
            node_object = {"metadata": {"name": LAST + "{ns}", "labels": {"script": "{ns}", "app": "x"}}}
            self._add("POST", "v1/nodes", node_object, is_namespaced=False)
        if "policy/v1/poddisruptionbudgets" in self._watched:
            budget = objects.budget(plain, f"{LAST}last")
            budget["metadata"] = {"name": f"{LAST}last", "labels": {"app": "x"}}
            self._add("POST", "policy/v1/poddisruptionbudgets", budget)

    def _create_node(self) -> None:
        self._add("POST", "v1/nodes", objects.node(self._random, self._node()), is_namespaced=False)

    def _change_node(self) -> None:
        name = self._node()
        if self._chance(0.5):
            body = self._metadata_patch(f"nodes/{name}")
            if self._chance(0.5):
                taints = [{"key": "b", "effect": "NoExecute"}]
                body["spec"] = self._random.choice([{"taints": taints}, {"unschedulable": True}, {"taints": None}])
            self._add("PATCH", f"v1/nodes/{name}", body, content_type=self._patch_type(), is_namespaced=False)
        elif self._chance(0.6):
            status: Object = self._random.choice(
                [
                    {"allocatable": {"cpu": "3"}},
                    {"conditions": [{"type": "Ready", "status": "False"}]},
                    {"conditions": [{"type": "MemoryPressure", "status": "False"}]},
                    {},
                ]
            )
            self._add(
                "PATCH", f"v1/nodes/{name}/status", {"status": status}, content_type=_STRATEGIC, is_namespaced=False
            )
        else:
            change = {"spec": {"unschedulable": self._random.choice([True, None])}}
            self._add("PUT", f"v1/nodes/{name}", change, start=f"nodes/{name}", is_namespaced=False)

    def _delete_node(self) -> None:
        name = self._node()
        self._add("DELETE", f"v1/nodes/{name}", self._delete_options(f"nodes/{name}"), is_namespaced=False)

    def _budget(self) -> None:
        name, path = self._name(), "policy/v1/poddisruptionbudgets"
        choice = self._random.random()
        if choice < 0.35:
            self._add("POST", path, objects.budget(self._random, name))
        elif choice < 0.7:
            body = {"status": objects.budget_status(self._random)}
            if self._chance(0.5):
                self._add("PATCH", f"{path}/{name}/status", body, content_type=_MERGE)
            else:
                self._add("PUT", f"{path}/{name}/status", body, start=f"poddisruptionbudgets/{name}")
        elif choice < 0.85:
            body = {"spec": {"minAvailable": self._random.choice([1, 2, "50%"])}}
            self._add("PATCH", f"{path}/{name}", body, content_type=self._patch_type())
        else:
            self._add("DELETE", f"{path}/{name}", self._delete_options(f"poddisruptionbudgets/{name}"))

    def _lease(self) -> None:
        name, path = self._random.choice(NAMES[:2]), "coordination.k8s.io/v1/leases"
        choice = self._random.random()
        lease = objects.lease(self._random, name)
        if choice < 0.3:
            self._add("POST", path, lease)
        elif choice < 0.4:
            self._add("PUT", f"{path}/{name}", lease)
        elif choice < 0.8:
            change: Object = {"spec": {"holderIdentity": "three", "leaseTransitions": self._random.choice([1, -1])}}
            if self._chance(0.2):
                change["metadata"] = {"resourceVersion": self._random.choice([None, "1"])}
            self._add("PUT", f"{path}/{name}", change, start=f"leases/{name}")
        elif choice < 0.9:
            self._add("DELETE", f"{path}/{name}")
        else:
            self._add("GET", f"{path}/{name}")

    def _workload(self) -> None:
        name = self._random.choice(NAMES[:2])
        kind, path = self._random.choice(
            [
                ("ReplicaSet", "apps/v1/replicasets"),
                ("StatefulSet", "apps/v1/statefulsets"),
                ("ReplicationController", "v1/replicationcontrollers"),
            ]
        )
        plural = path.rpartition("/")[2]
        choice = self._random.random()
        if choice < 0.5:
            self._add("POST", path, objects.workload(self._random, name, kind))
        elif choice < 0.65:
            body: Object = {"spec": {"replicas": self._random.choice([0, 1, 2])}}
            self._add("PATCH", f"{path}/{name}", body, content_type=self._patch_type())
        elif choice < 0.8:
            body = {"status": {"replicas": 1, "observedGeneration": 1}}
            self._add("PATCH", f"{path}/{name}/status", body, content_type=_MERGE)
        else:
            self._add("DELETE", f"{path}/{name}", self._delete_options(f"{plural}/{name}"))

    def _storage(self) -> None:
        name = self._random.choice(NAMES[:2])
        is_claim = self._chance(0.6)
        path, plural = ("v1/persistentvolumeclaims", "persistentvolumeclaims")
        if not is_claim:
            path, plural, name = "v1/persistentvolumes", "persistentvolumes", "{ns}-" + name
        choice = self._random.random()
        scope = {"is_namespaced": is_claim}
        made = objects.claim(self._random, name) if is_claim else objects.volume(self._random, name)
        if choice < 0.4:
            self._add("POST", path, made, **scope)
        elif choice < 0.7:
            body = self._metadata_patch(f"{plural}/{name}")
            if is_claim:
                # Always a change: the first patch of a claim is written also if it changes nothing, as a claim is
                # created without its phase, Pending, which is a default of reads.
                body["metadata"]["annotations"] = {"step": str(len(self._steps))}
                body["spec"] = self._random.choice([{"volumeName": "{ns}-a"}, {"volumeMode": "Block"}, {}])
            else:
                claim = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "{ns}", "name": "a"}
                body["spec"] = {"claimRef": {**claim, "uid": "{uid:persistentvolumeclaims/a}"}}
            self._add("PATCH", f"{path}/{name}", body, content_type=_STRATEGIC, **scope)
        elif choice < 0.85:
            body = {"status": {"phase": "Bound"}}
            self._add("PATCH", f"{path}/{name}/status", body, content_type=_MERGE, **scope)
        else:
            self._add("DELETE", f"{path}/{name}", self._delete_options(f"{plural}/{name}"), **scope)

    def _event(self) -> None:
        name, path = self._random.choice(NAMES[:2]), "events.k8s.io/v1/events"
        if self._chance(0.6):
            self._add("POST", path, objects.event(self._random, name))
        else:
            series = {"count": 2, "lastObservedTime": "2023-11-14T22:13:20.000000Z"}
            self._add("PATCH", f"{path}/{name}", {"series": series}, content_type=_STRATEGIC)

    def _other(self) -> None:
        """A request about a kind that has no action of its own."""
        path, kind, is_namespaced = self._random.choice(objects.OTHERS)
        plural = path.rpartition("/")[2]
        name = self._random.choice(NAMES[:2])
        name = name if is_namespaced else "{ns}-" + name
        choice = self._random.random()
        scope: dict[str, Any] = {"is_namespaced": is_namespaced}
        if choice < 0.4:
            self._add("POST", path, objects.other(self._random, path, kind, name), **scope)
        elif choice < 0.6:
            body = self._metadata_patch(f"{plural}/{name}")
            self._add("PATCH", f"{path}/{name}", body, content_type=self._patch_type(), **scope)
        elif choice < 0.75:
            change: Object = objects.change(self._random, kind)
            if self._chance(0.3):
                change["metadata"] = {"resourceVersion": self._random.choice([None, "1"])}
            self._add("PUT", f"{path}/{name}", change, start=f"{plural}/{name}", **scope)
        elif choice < 0.85:
            self._add("GET", f"{path}/{name}", **scope)
        else:
            self._add("DELETE", f"{path}/{name}", self._delete_options(f"{plural}/{name}"), **scope)

    def _wrong(self) -> None:
        """A request that no client should send."""
        wrong: list[tuple[str, str, Object | str | None]] = [
            ("POST", "v1/pods", "{"),
            ("POST", "v1/pods", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}),
            ("POST", "v1/pods", {"metadata": {"name": "Bad_Name"}, "spec": {"containers": []}}),
            ("POST", "v1/pods/a", {}),
            ("PUT", "v1/pods/a", {"metadata": {"name": "b"}}),
            ("PATCH", "v1/pods/a", "["),
            ("GET", "v1/unknown", None),
            ("POST", "v1/pods/a/unknown", {}),
            ("DELETE", "v1/pods/a/status", None),
        ]
        method, path, body = self._random.choice(wrong)
        content_type = self._random.choice([_MERGE, "text/plain"]) if method == "PATCH" else "application/json"
        self._add(method, path, body, content_type=content_type)


def _plain(path: str) -> str:
    """Return a path as it stands in a reference."""
    return path.replace("{ns}", "NS")
