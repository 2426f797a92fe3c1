"""What controllers of pods share: which pods an owner has, and to create and delete them once."""

from collections.abc import Callable
from typing import Any, Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import is_finished
from tests.worlds.actors.view import View

Object = dict[str, Any]

# An expectation that did not come true by then is given up (controller.ExpectationsTimeout).
EXPECTED_SECONDS: Final = 300.0


class _Expected:
    """What an owner's controller did and its view does not show yet."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.creations = 0
        self.deletions: set[str] = set()


class OwnedPods:
    """The pods of owners of one kind, by a view that lags. `changed` is called with the key of an owner."""

    def __init__(
        self, client: ActorClient, pods: View, kind: str, api_version: str, changed: Callable[[str], None]
    ) -> None:
        self._client = client
        self._kind = kind
        self._api_version = api_version
        self._changed = changed
        self._by_owner: dict[str, dict[str, Object]] = {}
        self._expected: dict[str, _Expected] = {}
        pods.on_change.append(self._on_change)

    def of(self, owner: Object) -> list[Object]:
        """Return an owner's pods."""
        return [*self._by_owner.get(owner["metadata"]["uid"], {}).values()]

    def active(self, owner: Object) -> list[Object]:
        """Return those that are neither finished nor being deleted."""
        return [pod for pod in self.of(owner) if not is_finished(pod) and "deletionTimestamp" not in pod["metadata"]]

    def shows_all(self, owner: Object) -> bool:
        """Whether the view shows all that was created and deleted for an owner, or has had its time."""
        expected = self._expected.get(owner["metadata"]["uid"])
        if expected is None:
            return True
        is_met = expected.creations <= 0 and not expected.deletions
        return is_met or self._now() > expected.since + EXPECTED_SECONDS

    async def create(self, owner: Object, template: Object) -> None:
        """Create a pod of an owner by its template. Raises RequestError."""
        metadata = owner["metadata"]
        expected = self._expect(metadata["uid"])
        expected.creations += 1
        reference = {
            "apiVersion": self._api_version, "kind": self._kind, "name": metadata["name"], "uid": metadata["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        pod_metadata = {
            **template["metadata"], "generateName": f"{metadata['name']}-", "ownerReferences": [reference],
        }  # fmt: skip
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
        try:
            await self._client.ask("POST", path, {"metadata": pod_metadata, "spec": template["spec"]})
        except RequestError:
            expected.creations -= 1
            raise

    async def delete(self, owner: Object, pod: Object) -> None:
        """Delete a pod of an owner. Raises RequestError."""
        metadata = pod["metadata"]
        expected = self._expect(owner["metadata"]["uid"])
        expected.deletions.add(metadata["uid"])
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        try:
            await self._client.ask("DELETE", path, {"preconditions": {"uid": metadata["uid"]}})
        except RequestError as error:
            expected.deletions.discard(metadata["uid"])
            if error.status not in (404, 409):
                raise

    def _expect(self, uid: str) -> _Expected:
        expected = self._expected.setdefault(uid, _Expected(self._now()))
        expected.since = self._now()
        return expected

    def _now(self) -> float:
        return self._client.world.timeline.now

    def _on_change(self, key: str, before: Object | None, after: Object | None) -> None:
        is_same = before is not None and after is not None and before["metadata"]["uid"] == after["metadata"]["uid"]
        if before is not None and not is_same:
            self._forget(key, before)
        if after is None or (owner := self.owner(after)) is None:
            return
        expected = self._expected.get(owner["uid"])
        if expected is not None and not is_same:
            expected.creations -= 1
        if expected is not None and "deletionTimestamp" in after["metadata"]:
            expected.deletions.discard(after["metadata"]["uid"])
        self._by_owner.setdefault(owner["uid"], {})[key] = after
        self._changed(f"{after['metadata']['namespace']}/{owner['name']}")

    def _forget(self, key: str, pod: Object) -> None:
        if (owner := self.owner(pod)) is not None:
            self._by_owner.get(owner["uid"], {}).pop(key, None)
            if expected := self._expected.get(owner["uid"]):
                expected.deletions.discard(pod["metadata"]["uid"])
            self._changed(f"{pod['metadata']['namespace']}/{owner['name']}")

    def owner(self, pod: Object) -> Object | None:
        """Return the reference to a pod's owner of this kind."""
        for reference in pod["metadata"].get("ownerReferences", ()):
            if reference.get("controller") and reference["kind"] == self._kind:
                owner: Object = reference
                return owner
        return None


def is_ready(pod: Object) -> bool:
    """Whether a pod has the condition Ready."""
    conditions = pod["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
