"""Leases (coordination.k8s.io/v1), by which schedulers elect a leader: reads the holder, or takes part."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from extender_service.kube.api_errors import ApiError, InvalidAnswerError, SilentError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.resources.api_resources import Resource
from extender_service.kube.types.core import Object, ObjectMeta
from extender_service.kube.writing.timestamps import micro_time, rfc3339


class LeaseSpec(Object):
    """coordination.k8s.io/v1 LeaseSpec. kube-scheduler's identity is its host's name, "_" and a UUID."""

    holder_identity: str = ""


class Lease(Object):
    """coordination.k8s.io/v1 Lease."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


LEASES = Resource("coordination.k8s.io", "v1", "leases", Lease)


async def lease_holder(client: KubeClient, namespace: str, name: str) -> str:
    """Return the holder of a lease; empty if it has no holder or does not exist. Raises KubeError, CredentialsError."""
    try:
        lease = await client.get(LEASES, namespace, name)
    except ApiError as error:
        if error.status_code == 404:
            return ""
        raise
    return lease.spec.holder_identity


class LeaseRecord(msgspec.Struct, frozen=True):
    """What an election reads and writes of a lease (client-go's LeaderElectionRecord). Times are metav1.MicroTime."""

    holder_identity: str
    lease_duration_seconds: int
    acquire_time: str
    renew_time: str
    transitions: int


class LeaseLock:
    """A lease that `identity` may take, with the rules of client-go's LeaseLock.

    A write refers to the version that was read or written last, so the API server refuses it (409) if another process
    has written meanwhile. It keeps what the lease has besides the record. No request takes longer than
    `answer_seconds`. All methods raise KubeError and CredentialsError.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        answer_seconds: float,
        component: str,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`component` is the source of the lease's events; `clock_ns` returns nanoseconds since 1970."""
        self.identity = identity
        self._client = client
        self._namespace = namespace
        self._name = name
        self._answer_seconds = answer_seconds
        self._component = component
        self._clock_ns = clock_ns
        self._stored: dict[str, Any] = {}

    def __str__(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def get(self) -> LeaseRecord | None:
        """Return the lease as it is now; None if there is none."""
        try:
            self._stored = await self._exchange("GET", LEASES.path(self._namespace, self._name))
        except ApiError as error:
            if error.status_code == 404:
                return None
            raise
        return _record(self._stored.get("spec") or {})

    async def create(self, record: LeaseRecord) -> None:
        """Create the lease; status 409 if there is one."""
        manifest = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self._namespace, "name": self._name},
            "spec": _spec(record),
        }
        self._stored = await self._exchange("POST", LEASES.path(self._namespace), manifest)

    async def update(self, record: LeaseRecord) -> None:
        """Write the record; status 409 if the lease has changed since, 404 if it is gone."""
        manifest = {**self._stored, "spec": {**(self._stored.get("spec") or {}), **_spec(record)}}
        self._stored = await self._exchange("PUT", LEASES.path(self._namespace, self._name), manifest)

    async def record_event(self, message: str) -> None:
        """Write a core/v1 Event about the lease, as client-go's election does."""
        now = self._clock_ns()
        metadata = self._stored.get("metadata") or {}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": self._namespace, "name": f"{self._name}.{now:x}"},
            "involvedObject": {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "namespace": self._namespace,
                "name": self._name,
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "type": "Normal",
            "reason": "LeaderElection",
            "message": f"{self.identity} {message}",
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": rfc3339(now // 10**9),
            "lastTimestamp": rfc3339(now // 10**9),
            "count": 1,
        }
        await self._exchange("POST", f"/api/v1/namespaces/{self._namespace}/events", event)

    def now(self) -> str:
        """Return the time for a record."""
        return micro_time(self._clock_ns())

    async def _exchange(self, method: str, path: str, manifest: Mapping[str, Any] | None = None) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await self._client.exchange(method, path, manifest)
        except TimeoutError as error:
            text = f"the API server took longer than {self._answer_seconds:g} s to answer"
            raise SilentError(text, self._answer_seconds) from error


def _record(spec: Mapping[str, Any]) -> LeaseRecord:
    """Read a record as client-go does: what is missing or null is empty. Raises InvalidAnswerError."""
    values = {
        "holder_identity": spec.get("holderIdentity") or "",
        "lease_duration_seconds": spec.get("leaseDurationSeconds") or 0,
        "acquire_time": spec.get("acquireTime") or "",
        "renew_time": spec.get("renewTime") or "",
        "transitions": spec.get("leaseTransitions") or 0,
    }
    try:
        return msgspec.convert(values, LeaseRecord)
    except msgspec.ValidationError as error:
        raise InvalidAnswerError(f"the lease cannot be read: {error}") from error


def _spec(record: LeaseRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": record.lease_duration_seconds,
        "acquireTime": record.acquire_time,
        "renewTime": record.renew_time,
        "leaseTransitions": record.transitions,
    }
