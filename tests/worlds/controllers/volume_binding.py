"""The PV controller: binds claims to volumes, and lets volumes go whose claims are gone.

Also lets claims and volumes go that are deleted and used no more (their protection controllers).
"""

from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object, amounts_of, is_finished
from tests.worlds.actors.reconciler import Reconciler
from tests.worlds.actors.view import View
from tests.worlds.controllers.shared_views import SharedViews

BOUND: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
CLAIMS: Final = "/api/v1/namespaces/{}/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"
_WAITING: Final = "WaitForFirstConsumer"


class VolumeBinder:
    """Immediate claims get a volume that is there, or are marked for their provisioner.

    Claims that wait for a pod get the volume that the scheduler chose, or are marked once it chose a node. A claim
    whose class is not known yet is looked at again later, as the real one looks at all claims every 15 s.
    """

    def __init__(self, client: ActorClient, views: SharedViews) -> None:
        self._client = client
        self._claims, self._volumes, self._pods = views.of("claims"), views.of("volumes"), views.of("pods")
        self._classes = views.of("classes")
        self._claim_work = Reconciler(client, self._sync_claim)
        self._volume_work = Reconciler(client, self._sync_volume)
        self._claims.on_change.append(self._on_claim)
        self._volumes.on_change.append(self._on_volume)
        self._pods.on_change.append(self._on_pod)

    def _on_claim(self, key: str, before: Object | None, after: Object | None) -> None:
        self._claim_work.add(key)
        for claim in (before, after):
            if claim is not None and (name := claim["spec"].get("volumeName")):
                self._volume_work.add(name)

    def _on_volume(self, key: str, before: Object | None, after: Object | None) -> None:
        self._volume_work.add(key)
        reference = _reference(after) if after else None
        if reference is not None:
            self._claim_work.add(_key(reference))
        elif after is not None:
            for each in self._claims.objects:  # one may have waited for such a volume
                self._claim_work.add(each)

    def _on_pod(self, key: str, before: Object | None, after: Object | None) -> None:
        """A claim that is deleted waits for the last pod that uses it."""
        if before is not None and (after is None or is_finished(after)):
            for name in claims_of(before):
                self._claim_work.add(name)

    # Claims:

    async def _sync_claim(self, key: str) -> None:
        claim = self._claims.objects.get(key)
        if claim is None:
            return
        metadata = claim["metadata"]
        if "deletionTimestamp" in metadata:
            if not any(key in claims_of(pod) for pod in self._pods.objects.values() if not is_finished(pod)):
                await self._client.ask("PUT", self._path(claim), _without_finalizer(claim, "pvc-protection"))
            return
        if BOUND in metadata.get("annotations", {}):
            await self._sync_bound(claim)
            return
        volume = self._volume_for(claim)
        if volume is not None:
            await self._bind(claim, volume)
        elif may_provision(self._classes, claim):
            provisioner = self._classes.objects[claim["spec"]["storageClassName"]]["provisioner"]
            if provisioner != "kubernetes.io/no-provisioner" and PROVISIONER not in metadata.get("annotations", {}):
                await self._annotate(claim, {PROVISIONER: provisioner})

    async def _sync_bound(self, claim: Object) -> None:
        volume = self._volumes.objects.get(claim["spec"].get("volumeName", ""))
        reference = _reference(volume) if volume else None
        if volume is not None and reference is None:
            # As after etcd was restored, or where only the view of volumes lags (pv_controller.go, syncBoundClaim).
            await self._bind(claim, volume)
            return
        is_right = reference is not None and reference.get("uid") == claim["metadata"]["uid"]
        phase = "Bound" if is_right else "Lost"
        if claim["status"].get("phase") != phase:
            await self._set_claim_phase(claim, phase, volume)

    def _volume_for(self, claim: Object) -> Object | None:
        """Return the volume that is meant for a claim; for one that waits for no pod, also the smallest that fits."""
        if name := claim["spec"].get("volumeName"):
            volume = self._volumes.objects.get(name)
            return volume if volume and (_reference(volume) is None or _is_for(volume, claim)) else None
        meant = [volume for volume in self._volumes.objects.values() if _is_for(volume, claim)]
        if meant or waits_for_pod(self._classes, claim):
            return meant[0] if meant else None
        fitting = [volume for volume in self._volumes.objects.values() if _fits(volume, claim)]
        return min(fitting, key=lambda volume: (_size(volume), volume["metadata"]["name"]), default=None)

    async def _bind(self, claim: Object, volume: Object) -> None:
        """Bind both sides: the volume first, then the claim (pv_controller.go, bind)."""
        metadata = claim["metadata"]
        reference = _reference(volume)
        if reference is None or reference.get("uid") != metadata["uid"]:
            wanted = {
                "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": metadata["namespace"],
                "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
            }  # fmt: skip
            marks = {} if reference else {BOUND_BY_CONTROLLER: "yes"}
            changed = _annotated({**volume, "spec": {**volume["spec"], "claimRef": wanted}}, marks)
            volume = await self._client.ask("PUT", f"{VOLUMES}/{volume['metadata']['name']}", changed)
        if volume["status"].get("phase") != "Bound":
            volume = await self._set_volume_phase(volume, "Bound")
        marks = {BOUND: "yes", **({} if claim["spec"].get("volumeName") else {BOUND_BY_CONTROLLER: "yes"})}
        spec = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
        claim = await self._client.ask("PUT", self._path(claim), _annotated({**claim, "spec": spec}, marks))
        await self._set_claim_phase(claim, "Bound", volume)

    async def _annotate(self, claim: Object, marks: dict[str, str]) -> None:
        await self._client.ask("PUT", self._path(claim), _annotated(claim, marks))

    async def _set_claim_phase(self, claim: Object, phase: str, volume: Object | None) -> None:
        status: Object = {"phase": phase}
        if volume is not None:
            status.update(accessModes=volume["spec"]["accessModes"], capacity=volume["spec"]["capacity"])
        await self._client.ask("PUT", f"{self._path(claim)}/status", {**claim, "status": status})

    def _path(self, claim: Object) -> str:
        return f"{CLAIMS.format(claim['metadata']['namespace'])}/{claim['metadata']['name']}"

    # Volumes:

    async def _sync_volume(self, name: str) -> None:
        volume = self._volumes.objects.get(name)
        if volume is None:
            return
        reference = _reference(volume)
        if reference is None or not reference.get("uid"):
            if "deletionTimestamp" in volume["metadata"]:
                await self._client.ask("PUT", f"{VOLUMES}/{name}", _without_finalizer(volume, "pv-protection"))
            elif volume["status"].get("phase") != "Available":
                await self._set_volume_phase(volume, "Available")
            return
        claim = self._claims.objects.get(_key(reference))
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            claim = await self._asked_claim(reference)
        if claim is not None:
            if claim["spec"].get("volumeName") == name and volume["status"].get("phase") != "Bound":
                await self._set_volume_phase(volume, "Bound")
            elif claim["spec"].get("volumeName") not in (None, name):
                await self._release(volume)
            return
        if volume["status"].get("phase") != "Released":
            volume = await self._set_volume_phase(volume, "Released")
        if "deletionTimestamp" in volume["metadata"]:
            await self._client.ask("PUT", f"{VOLUMES}/{name}", _without_finalizer(volume, "pv-protection"))

    async def _asked_claim(self, reference: Object) -> Object | None:
        """Return the claim that a volume names, as the API server has it: the view lags."""
        path = CLAIMS.format(reference["namespace"])
        for claim in (await self._client.ask("GET", path))["items"]:
            if claim["metadata"]["uid"] == reference["uid"]:
                found: Object = claim
                return found
        return None

    async def _release(self, volume: Object) -> None:
        """The claim is bound to another volume: this one is free again, or goes if it was made for the claim."""
        if BOUND_BY_CONTROLLER in volume["metadata"].get("annotations", {}):
            spec = {name: part for name, part in volume["spec"].items() if name != "claimRef"}
            await self._client.ask("PUT", f"{VOLUMES}/{volume['metadata']['name']}", {**volume, "spec": spec})
        elif volume["status"].get("phase") != "Released":
            await self._set_volume_phase(volume, "Released")

    async def _set_volume_phase(self, volume: Object, phase: str) -> Object:
        path = f"{VOLUMES}/{volume['metadata']['name']}/status"
        return await self._client.ask("PUT", path, {**volume, "status": {**volume["status"], "phase": phase}})


def claims_of(pod: Object) -> list[str]:
    """Return the keys of the claims that a pod uses."""
    used = [volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes", ())]
    return [f"{pod['metadata']['namespace']}/{source['claimName']}" for source in used if source]


def knows_class(classes: View, claim: Object) -> bool:
    """Return whether a claim has a class. Raises RequestError if the view does not know that yet: so the claim is
    looked at again later."""
    name = claim["spec"].get("storageClassName", "")
    if name and name not in classes.objects:
        raise RequestError(404, f"the class {name} is not known")
    return bool(name)


def waits_for_pod(classes: View, claim: Object) -> bool:
    """Return whether the class of a claim, if it is known, gives it a volume only once a node is selected for a pod."""
    found = classes.objects.get(claim["spec"].get("storageClassName", ""))
    return found is not None and found.get("volumeBindingMode") == _WAITING


def may_provision(classes: View, claim: Object) -> bool:
    """Return whether a volume may be made for a claim. Raises RequestError like `knows_class`."""
    if claim["spec"].get("volumeName") or not knows_class(classes, claim):
        return False
    return not waits_for_pod(classes, claim) or SELECTED_NODE in claim["metadata"].get("annotations", {})


def _reference(volume: Object) -> Object | None:
    found: Object | None = volume["spec"].get("claimRef")
    return found


def _key(reference: Object) -> str:
    return f"{reference['namespace']}/{reference['name']}"


def _is_for(volume: Object, claim: Object) -> bool:
    reference, metadata = _reference(volume), claim["metadata"]
    if reference is None or _key(reference) != f"{metadata['namespace']}/{metadata['name']}":
        return False
    return reference.get("uid") in (None, "", metadata["uid"])


def _fits(volume: Object, claim: Object) -> bool:
    if _reference(volume) or volume["status"].get("phase") != "Available" or "deletionTimestamp" in volume["metadata"]:
        return False
    if volume["spec"].get("storageClassName", "") != claim["spec"].get("storageClassName", ""):
        return False
    if not set(claim["spec"]["accessModes"]) <= set(volume["spec"]["accessModes"]):
        return False
    return _size(volume) >= amounts_of(claim["spec"]["resources"]["requests"])["storage"]


def _size(volume: Object) -> int:
    return amounts_of(volume["spec"]["capacity"])["storage"]


def _annotated(value: Object, marks: dict[str, str]) -> Object:
    metadata = value["metadata"]
    return {**value, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **marks}}}


def _without_finalizer(value: Object, name: str) -> Object:
    left = [each for each in value["metadata"].get("finalizers", ()) if each != f"kubernetes.io/{name}"]
    return {**value, "metadata": {**value["metadata"], "finalizers": left}}
