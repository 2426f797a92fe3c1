"""Kubernetes objects as tests write them: plain dicts, as they go to the API server."""

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> Object:
    """A Ready node. Its status goes in with its creation, as a kubelet's does when it registers."""
    resources = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    host_ports: Sequence[int] = (),
    **spec: Any,
) -> Object:
    """A pod of one container. `spec` holds further PodSpec fields by their own names: `nodeSelector={…}`.

    Its grace period is 0 seconds: once bound and deleted, any other would leave it Terminating, as no kubelet ends it.
    """
    container = {
        "name": "main",
        "image": "registry.example/main:1",
        "resources": {"requests": dict(requests or {})},
        "ports": [{"containerPort": port, "hostPort": port} for port in host_ports],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }
