import logging

import pytest
from msgspec import structs

from extender_service.cluster.cluster import Cluster
from extender_service.extender.service import ExtenderService, Mode, pod_name
from extender_service.framework.profile import Profile
from extender_service.kube.objects import Pod
from tests.unit.cluster.objects import make_pod


def pod_of(scheduler_name: str) -> Pod:
    pod = make_pod("web")
    return structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=scheduler_name))


@pytest.fixture
def service() -> ExtenderService:
    profiles = {name: Profile(name, {}) for name in ("first", "second")}
    return ExtenderService(Cluster(), profiles, mode="beside", is_live=False)


def test_the_scheduler_name_picks_the_profile(service: ExtenderService, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("first", "second"):
        assert service.profile_for(pod_of(name)).scheduler_name == name
    assert caplog.records == []


def test_a_pod_of_an_unknown_scheduler_gets_the_first_profile_and_that_is_said_once(
    service: ExtenderService, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("third", "third", "", "third"):
        assert service.profile_for(pod_of(name)).scheduler_name == "first"
    assert [(record.levelno, vars(record)["asked"]) for record in caplog.records] == [
        (logging.WARNING, "third"),
        (logging.WARNING, "default-scheduler"),
    ]


def test_endless_names_do_not_fill_the_log(service: ExtenderService, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(500):
        service.profile_for(pod_of(f"scheduler-{number}"))
    assert len(caplog.records) == 100


def test_pods_are_told_by_namespace_and_name() -> None:
    assert pod_name(make_pod("web")) == "default/web"


@pytest.mark.parametrize(
    ("mode", "is_live", "warnings"), [("beside", True, 1), ("replace", True, 0), ("beside", False, 0)]
)
def test_whole_nodes_beside_kube_scheduler_are_warned_of_once(
    mode: Mode, is_live: bool, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    service = ExtenderService(Cluster(), {}, mode=mode, is_live=is_live)
    for _ in range(3):
        service.tell_of_whole_nodes()
    assert len(caplog.records) == warnings
