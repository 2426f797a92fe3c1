"""Runs scenarios on a control plane with a scheduler, and records what users see after each step."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from datetime import datetime
from typing import Any

import msgspec

from extender_service.config.release import OLDEST_MINOR
from tests.e2e.scheduler.side_by_side.steps import BindByHand, Scenario
from tests.e2e.support.api import API, APIError
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.oracle_cases import case, surroundings, without_history
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.volume_controllers import volume_controllers
from tests.e2e.support.waiting import wait_until

# A pod whose attempt failed is back in the active queue after a backoff of 1 s and a flush, which comes each second.
_SILENCE_WITH_WAITING_SECONDS = 2.4
_SILENCE_SECONDS = 0.6
_POLL_SECONDS = 0.1
_TIMEOUT_SECONDS = 30.0
# Within which the order of two bindings does not show the order of their decisions.
_MOMENT_SECONDS = 0.1

_EVENTS = "events.k8s.io/v1"
# What a scenario may leave behind, in the order in which it goes.
_KINDS = {
    "Pod": "v1",
    "PodDisruptionBudget": "policy/v1",
    "Service": "v1",
    "PersistentVolumeClaim": "v1",
    "PersistentVolume": "v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
    "Node": "v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "Event": _EVENTS,
}
# The reasons of a condition that a scheduler writes after a failed attempt.
_REFUSED = ("Unschedulable", "SchedulerError")
# As a pod is deleted, the watch shows it being deleted for a moment. An attempt may fall into that.
_SKIPPED = "skip schedule deleting pod"
# kube-scheduler has two caches of claims. The one may wake a pod before the other has the claim.
_HALF_SEEN = 'running PreFilter plugin "VolumeBinding": error getting PVC'
# From this minor on, kube-scheduler loses the reference to the preemptor, as it has wrapped the pod.
_PREEMPTOR_LOST = 36
_KEPT = {"kubernetes", "system-cluster-critical", "system-node-critical"}
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Placement(msgspec.Struct, frozen=True):
    """A pod that was bound in a step, and the oracle's cases: the cluster as the scheduler had it.

    There is a second case where another pod was bound within a moment after it: bindings run side by side, so that one
    may have been decided about before. There is no case, and so it has to be the same node, if the oracle has not the
    pod's profile, or if the pod has claims, which are bound by now.
    """

    pod: str
    node: str
    cases: tuple[bytes, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """What users see when a step has ended. UIDs are replaced by the names of the objects that have them.

    - `objects`: what the scheduler writes of pods, claims and volumes, by kind and name
    - `events`: all events of the scenario up to now, as sets of fields
    - `placements`: of this step, in the order of their events
    """

    objects: Mapping[str, Any]
    events: frozenset[tuple[tuple[str, str], ...]]
    placements: Sequence[Placement]


def record(
    control_plane: ControlPlane, scenario: Scenario, minor: int = OLDEST_MINOR, *, slower: int = 1
) -> list[Snapshot]:
    """Run a scenario in an empty cluster of the release 1.`minor`, and empty the cluster again.

    Before each snapshot, wait for a silence that is `slower` times as long as it has to be on a machine with time.
    """
    api, snapshots, bound = control_plane.api, list[Snapshot](), set[str]()
    by_hand = {step.pod for step in scenario.steps if isinstance(step, BindByHand)}
    controllers = nullcontext() if scenario.provisioner is None else volume_controllers(api, scenario.provisioner)
    try:
        with controllers:
            for step in scenario.steps:
                step(api)
                _wait_until_quiet(api, by_hand, slower=slower)
                snapshots.append(_snapshot(api, bound, minor))
    finally:
        _clear(api)
    return snapshots


def wait_for_scheduler(control_plane: ControlPlane) -> None:
    """Wait until the scheduler binds pods."""
    api = control_plane.api
    api.create(node("first"), pod("first"))
    wait_until(lambda: api.get("Pod", "first", namespace="default")["spec"].get("nodeName"), "the scheduler", 60)
    _clear(api)


def _wait_until_quiet(api: API, by_hand: AbstractSet[str], *, slower: int) -> None:
    """Wait until all events have come, and nothing has changed for longer than a pod's backoff.

    If no pod waits, nothing has to change for a moment only. Both are `slower` times as long.
    """
    start = changed = time.monotonic()
    before = None
    while True:
        pods, events = api.list_all("Pod"), api.list_all("Event", api_version=_EVENTS)
        now = [*_versions(pods), *_versions(events), *_versions(api.list_all("PersistentVolumeClaim"))]
        if now != before:
            before, changed = now, time.monotonic()
        missing = list(_missing_events(pods, events, by_hand))
        waits = any(not pod["spec"].get("nodeName") and not pod["spec"].get("schedulingGates") for pod in pods)
        silence = time.monotonic() - changed
        if not missing and silence >= slower * (_SILENCE_WITH_WAITING_SECONDS if waits else _SILENCE_SECONDS):
            return
        if time.monotonic() - start > slower * _TIMEOUT_SECONDS:
            what = f"has not written {', '.join(missing)}" if missing else "is not quiet"
            raise TimeoutError(f"the scheduler {what} after {slower * _TIMEOUT_SECONDS} s")
        time.sleep(_POLL_SECONDS)


def _missing_events(pods: Sequence[Object], events: Sequence[Object], by_hand: AbstractSet[str]) -> Iterator[str]:
    """Yield the events that are still to come, as the conditions of pods show: schedulers write them apart, and later.

    Only a binding sets the condition of a pod on a node: one that was created there has none.
    """
    written = {(event["regarding"].get("uid"), event["reason"]) for event in events}
    for found in pods:
        metadata, conditions = found["metadata"], found["status"].get("conditions", [])
        condition: Object = next((each for each in conditions if each["type"] == "PodScheduled"), {})
        if condition.get("status") == "True" and metadata["name"] not in by_hand:
            reason = "Scheduled"
        elif condition.get("reason") in _REFUSED:
            reason = "FailedScheduling"
        else:
            continue
        if (metadata["uid"], reason) not in written:
            yield f"{reason} of {metadata['name']}"


def _versions(objects: Sequence[Object]) -> Iterator[tuple[str, str]]:
    return ((found["metadata"]["uid"], found["metadata"]["resourceVersion"]) for found in objects)


def _snapshot(api: API, bound: set[str], minor: int) -> Snapshot:
    pods, claims = api.list_all("Pod"), api.list_all("PersistentVolumeClaim")
    events = api.list_all("Event", api_version=_EVENTS)
    names = {found["metadata"]["uid"]: found["metadata"]["name"] for found in [*pods, *claims]}
    for event in events:
        for reference in (event["regarding"], event.get("related", {})):
            if "uid" in reference:
                names[reference["uid"]] = reference["name"]

    objects = {
        **{f"Pod {pod['metadata']['name']}": _of_pod(pod) for pod in pods},
        **{f"Claim {claim['metadata']['name']}": _of_claim(claim) for claim in claims},
        **{f"Volume {volume['metadata']['name']}": _of_volume(volume) for volume in api.list_all("PersistentVolume")},
    }
    present = {pod["metadata"]["uid"] for pod in pods}
    told = frozenset(
        tuple(sorted(_of_event(event, minor).items()))
        for event in events
        if not (event["note"].startswith(_SKIPPED) and event["regarding"]["uid"] not in present)
        and not event["note"].startswith(_HALF_SEEN)
    )
    return Snapshot(
        objects=_with_names(objects, names),
        events=_with_names(told, names),
        placements=_placements(api, pods, events, bound),
    )


def _of_pod(found: Object) -> Object:
    status = found["status"]
    times = ("lastProbeTime", "lastTransitionTime")
    # This program does not know the generation of running pods.
    unknown = {"DisruptionTarget": "observedGeneration"}
    return {
        "node": found["spec"].get("nodeName", ""),
        "nominated": status.get("nominatedNodeName", ""),
        "phase": status["phase"],
        "is being deleted": "deletionTimestamp" in found["metadata"],
        "conditions": sorted(
            tuple(
                sorted(
                    (key, value)
                    for key, value in condition.items()
                    if key not in times and key != unknown.get(condition["type"])
                )
            )
            for condition in status.get("conditions", [])
        ),
    }


def _of_claim(claim: Object) -> Object:
    return {"volume": claim["spec"].get("volumeName"), "annotations": claim["metadata"].get("annotations")}


def _of_volume(volume: Object) -> Object:
    claim = volume["spec"].get("claimRef", {})
    return {"claim": claim.get("name"), "annotations": volume["metadata"].get("annotations")}


def _of_event(event: Object, minor: int) -> dict[str, str]:
    fields = ("type", "reason", "action", "note", "reportingController")
    told = {field: event.get(field, "") for field in fields} | {"regarding": event["regarding"]["name"]}
    if event["reason"] != "Preempted" or minor < _PREEMPTOR_LOST:
        told["related"] = event.get("related", {}).get("name", "")
    return told


def _with_names(found: Any, names: Mapping[str, str]) -> Any:
    """Replace UIDs in all texts by `uid of NAME`."""
    if isinstance(found, str):
        return _UID.sub(lambda match: f"uid of {names.get(match.group(), 'unknown')}", found)
    if isinstance(found, Mapping):
        return {_with_names(key, names): _with_names(value, names) for key, value in found.items()}
    if isinstance(found, list | tuple | frozenset):
        return type(found)(_with_names(each, names) for each in found)
    return found


def _placements(api: API, pods: Sequence[Object], events: Sequence[Object], bound: set[str]) -> list[Placement]:
    """The pods that the scheduler bound in this step, each with the pods that were on nodes before it."""
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods if pod["spec"].get("nodeName")}
    when = {event["regarding"]["uid"]: event["eventTime"] for event in events if event["reason"] == "Scheduled"}
    new = sorted((uid for uid in when.keys() & by_uid.keys() if uid not in bound), key=when.__getitem__)
    bound.update(by_uid)
    around, placements = surroundings(api), []
    for number, uid in enumerate(new):
        pod, later = by_uid[uid], new[number:]
        after_this_moment = [other for other in later if _seconds_between(when[uid], when[other]) > _MOMENT_SECONDS]
        wanted = {**without_history(pod), "status": {}}
        wanted["spec"] = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        name = pod["metadata"]["name"]
        cases = []
        for left_out in (later, [uid, *after_this_moment]) if _is_judged(pod) else ():
            others = [without_history(other) for found, other in by_uid.items() if found not in left_out]
            cases.append(case(name, wanted, others, around))
        placements.append(Placement(name, pod["spec"]["nodeName"], tuple(dict.fromkeys(cases))))
    return placements


def _seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def _is_judged(found: Object) -> bool:
    has_claims = any("persistentVolumeClaim" in volume for volume in found["spec"].get("volumes", []))
    return found["spec"]["schedulerName"] == "default-scheduler" and not has_claims


def _clear(api: API) -> None:
    for kind, version in _KINDS.items():
        left = [found for found in api.list_all(kind, api_version=version) if found["metadata"]["name"] not in _KEPT]
        for found in left:
            try:
                if found["metadata"].get("finalizers"):
                    api.patch(found, patch={"metadata": {"finalizers": None}})
                api.delete(found)
            except APIError as error:
                if error.status_code != 404:  # it was being deleted
                    raise
    wait_until(lambda: not api.list_all("Pod"), "the pods to be gone")
    time.sleep(_SILENCE_SECONDS)
    api.delete(*api.list_all("Event", api_version=_EVENTS))
