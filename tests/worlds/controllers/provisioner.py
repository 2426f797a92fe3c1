"""A CSI driver's provisioner: makes volumes for claims that are marked for it, and deletes those that are released."""

from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object
from tests.worlds.actors.kubelet import DRIVER
from tests.worlds.actors.reconciler import Reconciler
from tests.worlds.controllers.shared_views import SharedViews
from tests.worlds.controllers.volume_binding import BOUND, CLAIMS, PROVISIONER, SELECTED_NODE, VOLUMES, may_provision

ZONE: Final = "topology.kubernetes.io/zone"
_FAILS: Final = 0.1
# Where some volumes take long, so often, and so long.
_IS_SLOW: Final = 0.3
_SLOW_SECONDS: Final = 20.0


class Provisioner:
    """Volumes are of the zone of the node that was selected, or of any zone. Some attempts fail. Some take long until
    `slow_until`, in the world's time.

    A claim that waits for a pod, and is marked for a provisioner, gets no volume while no node is selected for it: it
    was given back. Where the view of classes lags, a claim is looked at again later (shouldProvision in controller.go
    of sig-storage-lib-external-provisioner fails then).
    """

    def __init__(self, client: ActorClient, views: SharedViews, slow_until: float = 0.0) -> None:
        self._client = client
        self._slow_until = slow_until
        self._slowness = client.world.random("slow volumes")
        self._claims, self._volumes = views.of("claims"), views.of("volumes")
        self._classes, self._nodes = views.of("classes"), views.of("nodes")
        self._maker = Reconciler(client, self._make)
        self._deleter = Reconciler(client, self._delete)
        self._claims.on_change.append(lambda key, before, after: self._maker.add(key))
        self._volumes.on_change.append(lambda key, before, after: self._deleter.add(key))

    async def _make(self, key: str) -> None:
        claim = self._claims.objects.get(key)
        if claim is None or not self._is_wanted(claim):
            return
        metadata, spec = claim["metadata"], claim["spec"]
        selected = metadata.get("annotations", {}).get(SELECTED_NODE)
        await self._client.sleep(self._client.random.uniform(0.3, 4.0))
        if self._client.world.timeline.now < self._slow_until and self._slowness.random() < _IS_SLOW:
            await self._client.sleep(_SLOW_SECONDS)
        node = self._nodes.objects.get(selected) if selected else None
        if selected and (node is None or self._client.random.random() < _FAILS):
            await self._give_back(claim)
            return
        zone = self._zone(node)
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}] if zone else []
        volume = {
            "metadata": {
                "name": f"pvc-{metadata['uid']}",
                "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER},
            },
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "storageClassName": spec["storageClassName"],
                "persistentVolumeReclaimPolicy": self._classes.objects[spec["storageClassName"]]["reclaimPolicy"],
                "csi": {"driver": DRIVER, "volumeHandle": metadata["uid"]},
                "claimRef": {
                    "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": metadata["namespace"],
                    "name": metadata["name"], "uid": metadata["uid"],
                },
                **({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}),
            },
        }  # fmt: skip
        try:
            await self._client.ask("POST", VOLUMES, volume)
        except RequestError as error:
            if error.status != 409:  # it was made before
                raise

    def _is_wanted(self, claim: Object) -> bool:
        marks = claim["metadata"].get("annotations", {})
        if "deletionTimestamp" in claim["metadata"] or BOUND in marks:
            return False
        return marks.get(PROVISIONER) == DRIVER and may_provision(self._classes, claim)

    def _zone(self, node: Object | None) -> str:
        if node is not None:
            return str(node["metadata"].get("labels", {}).get(ZONE, ""))
        zones = {each["metadata"].get("labels", {}).get(ZONE, ""): None for each in self._nodes.objects.values()}
        return self._client.random.choice([*zones]) if zones else ""

    async def _give_back(self, claim: Object) -> None:
        """Have the scheduler choose again."""
        marks = {name: text for name, text in claim["metadata"]["annotations"].items() if name != SELECTED_NODE}
        body = {**claim, "metadata": {**claim["metadata"], "annotations": marks}}
        path = f"{CLAIMS.format(claim['metadata']['namespace'])}/{claim['metadata']['name']}"
        await self._client.ask("PUT", path, body)

    async def _delete(self, name: str) -> None:
        volume = self._volumes.objects.get(name)
        if volume is None or "deletionTimestamp" in volume["metadata"]:
            return
        is_own = volume["metadata"].get("annotations", {}).get("pv.kubernetes.io/provisioned-by") == DRIVER
        is_released = volume["status"].get("phase") == "Released"
        if is_own and is_released and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            await self._client.sleep(self._client.random.uniform(0.3, 4.0))
            try:
                await self._client.ask("DELETE", f"{VOLUMES}/{name}")
            except RequestError as error:
                if error.status != 404:
                    raise
