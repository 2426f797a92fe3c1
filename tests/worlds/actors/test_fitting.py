"""What a pod asks for, as those see it who are not the scheduler."""

from typing import Any

import pytest

from tests.worlds.actors.fitting import Room, requests_of

Object = dict[str, Any]


def container(cpu: str, **more: str) -> Object:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


def sidecar(cpu: str) -> Object:
    return container(cpu, restartPolicy="Always")


@pytest.mark.parametrize(
    ("first", "milli"),
    [
        ([], 100),
        ([container("70m")], 100),
        ([container("150m")], 150),
        ([sidecar("30m")], 130),
        ([sidecar("30m"), container("150m")], 180),
        ([container("150m"), sidecar("30m")], 150),
        ([sidecar("30m"), sidecar("20m"), container("90m")], 150),
    ],
)
def test_sidecars_ask_for_more_beside_the_containers_and_what_comes_after_them(first: list[Object], milli: int) -> None:
    pod = {"spec": {"containers": [container("100m")], "initContainers": first}}
    assert requests_of(pod) == {"cpu": milli}


def test_a_room_has_what_the_pods_in_it_left() -> None:
    room = Room({"cpu": 250, "pods": 2}, [{"spec": {"containers": [container("100m")]}}])
    assert room.shortage({"spec": {"containers": [container("151m")]}}) == "cpu"
    pod = {"spec": {"containers": [{"resources": {"requests": {"cpu": "150m", "example.com/gpu": "1"}}}]}}
    assert room.shortage(pod) == ""
    room.take(pod)
    assert room.shortage({"spec": {"containers": [{}]}}) == "pods"
