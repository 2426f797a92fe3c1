"""The few objects of the API server that are read and written by name: pods, volumes and claims."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, TypeVar

import msgspec

from extender_service.cluster.sources.binding_right import BindingRight
from extender_service.kube.api_errors import ApiError, KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.resources.api_resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    WRITTEN_PODS,
    Resource,
)
from extender_service.kube.types.core import Pod
from extender_service.kube.types.keys import key_of
from extender_service.kube.types.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from extender_service.seams import WallClock

_Written = TypeVar("_Written", PersistentVolume, PersistentVolumeClaim)

# When kube-scheduler was made to try the pod again, RFC 3339.
ASKED_AGAIN: Final = "extender-service/asked-again"


class _CredentialsErrorsAsKubeErrors:
    """Raises a CredentialsError of its context as a KubeError.

    A class, as contextlib's context managers take several times as long, and each binding enters one.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, CredentialsError):
            raise KubeError(str(error)) from error


_AS_KUBE_ERROR: Final = _CredentialsErrorsAsKubeErrors()


class ObjectApi:
    """Reads and writes single objects, at once. All methods raise KubeError, also where credentials cannot be had."""

    def __init__(
        self, client: KubeClient, binding_right: BindingRight | None = None, *, wall_clock: WallClock = time.time
    ) -> None:
        """`binding_right` is in doubt after a binding that was forbidden; None if nothing depends on it."""
        self._client = client
        self._binding_right = binding_right
        self._wall_clock = wall_clock

    def held_back_seconds(self) -> float:
        """Return how long the client's rate limit would hold back a write now."""
        return self._client.held_back_seconds()

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod as it is now, None if there is none."""
        with _AS_KUBE_ERROR:
            try:
                return await self._client.get(PODS, namespace, name)
            except ApiError as error:
                if error.status_code == 404:
                    return None
                raise

    async def get_pod_json(self, namespace: str, name: str) -> bytes:
        """Return the JSON of a pod as it is now."""
        with _AS_KUBE_ERROR:
            return await self._client.get_json(PODS, namespace, name)

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod, with its UID as precondition. After a KubeError, the pod may be bound all the same."""
        with _AS_KUBE_ERROR:
            try:
                await self._client.bind(namespace, name, uid, node_name)
            except ApiError as error:
                if error.status_code == 403 and self._binding_right is not None:
                    self._binding_right.doubt()
                raise

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> str:
        """Apply a strategic merge patch to a pod's status, and return the pod's resource version."""
        with _AS_KUBE_ERROR:
            written = await self._client.patch(WRITTEN_PODS, namespace, name, patch, subresource="status")
        return written.metadata.resource_version

    async def touch_pod(self, namespace: str, name: str, uid: str) -> None:
        """Change a pod's annotation ASKED_AGAIN, with its UID as precondition: kube-scheduler tries the pod again."""
        at = datetime.fromtimestamp(self._wall_clock(), UTC).isoformat()
        metadata = {"uid": uid, "annotations": {ASKED_AGAIN: at}}
        with _AS_KUBE_ERROR:
            await self._client.patch_unread(PODS, namespace, name, {"metadata": metadata})

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete a pod, with its UID as precondition."""
        with _AS_KUBE_ERROR:
            await self._client.delete(PODS, namespace, name, uid)

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write a volume's annotations and claim reference, if it has not changed since."""
        spec = {} if volume.spec.claim_ref is None else {"claimRef": _claim_reference(volume.spec.claim_ref)}
        return await self._patch(PERSISTENT_VOLUMES, volume, {"spec": spec})

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Write a claim's annotations, if it has not changed since."""
        return await self._patch(PERSISTENT_VOLUME_CLAIMS, claim, {})

    async def _patch(self, resource: Resource[_Written], obj: _Written, changes: Mapping[str, Any]) -> _Written:
        # The resource version makes the API server refuse (409) what follows from an older state.
        metadata = {"resourceVersion": obj.metadata.resource_version, "annotations": obj.metadata.annotations}
        with _AS_KUBE_ERROR:
            return await self._client.patch(resource, *key_of(obj), {"metadata": metadata, **changes})


def _claim_reference(reference: ClaimReference) -> dict[str, str]:
    """A v1.ObjectReference; what is not known of the claim is left out."""
    known = {name: value for name, value in msgspec.to_builtins(reference).items() if value}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **known}
