import logging

import pytest
from msgspec import structs

from extender_service.framework.profile import Profile
from extender_service.framework.profiles import MOST_CHARACTERS, MOST_OTHER_NAMES, Profiles
from extender_service.kube.types.core import Pod
from tests.support.objects import make_pod


def pod_of(scheduler_name: str) -> Pod:
    pod = make_pod("web")
    return structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=scheduler_name))


@pytest.fixture
def profiles() -> Profiles:
    return Profiles({name: Profile(name, {}) for name in ("first", "second")})


def test_the_scheduler_name_picks_the_profile(profiles: Profiles, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("first", "second"):
        assert profiles.of(pod_of(name)).scheduler_name == name
    assert caplog.records == []


def test_a_pod_of_an_unknown_scheduler_gets_the_first_profile_and_that_is_said_once(
    profiles: Profiles, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("third", "third", "", "third"):
        assert profiles.of(pod_of(name)).scheduler_name == "first"
    assert [(record.levelno, vars(record)["asked"]) for record in caplog.records] == [
        (logging.WARNING, "third"),
        (logging.WARNING, "default-scheduler"),
    ]


def test_endless_names_do_not_fill_the_log(profiles: Profiles, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(500):
        profiles.of(pod_of(f"scheduler-{number}"))
    assert len(caplog.records) == 100


def test_nominated_pods_count_of_profiles_and_of_schedulers_that_asked(profiles: Profiles) -> None:
    assert profiles.names == {"first", "second"}
    profiles.of(pod_of("second"))
    profiles.of(pod_of("third"))
    assert profiles.names == {"first", "second", "third"}


def test_endless_and_long_names_do_not_fill_the_memory(profiles: Profiles) -> None:
    for number in range(500):
        profiles.of(pod_of(f"{number}-" + 10_000 * "x"))
    assert len(profiles.names) == 2 + MOST_OTHER_NAMES
    assert max(map(len, profiles.names)) == MOST_CHARACTERS
