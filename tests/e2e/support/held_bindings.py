"""Bindings that last as long as a test wants, and what is told of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e.support.objects import Object
from tests.e2e.support.plugins.held_pre_bind import HeldPreBind
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service


@contextmanager
def holding(
    control_plane: ControlPlane, directory: Path, options: Sequence[str] = ()
) -> Iterator[tuple[Service, Path]]:
    """The service with bindings that wait until a file exists."""
    go_on = directory / "go-on"
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"preBind": {"enabled": [{"name": HeldPreBind.name}]}},
        "pluginConfig": [{"name": HeldPreBind.name, "args": {"file": str(go_on)}}],
    }
    with Service(
        directory,
        control_plane.kubeconfig,
        configuration={"profiles": [profile]},
        plugins=[HeldPreBind],
        options=options,
    ) as service:
        yield service, go_on


def binding_of(wanted: Object, node_name: str) -> Object:
    """What kube-scheduler sends to have a pod bound."""
    meta = wanted["metadata"]
    return {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node_name}


def bind_and_hang_up(service: Service, wanted: Object) -> None:
    """Have a pod bound to node a, and be gone before it is."""
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{service.url}/bind",
            json=binding_of(wanted, "a"),
            timeout=httpx.Timeout(10.0, read=0.5),
            trust_env=False,
        )


def events_of(control_plane: ControlPlane, regarding: Object) -> list[Object]:
    """The events about an object."""
    stored = control_plane.api.list_all("Event", api_version="events.k8s.io/v1", namespace="default")
    return [event for event in stored if event["regarding"].get("uid") == regarding["metadata"]["uid"]]
