import pytest

from extender_service.config.feature_gates import KNOWN_GATES, parse_gates, resolve_gates


@pytest.mark.parametrize(
    ("texts", "hints", "capacity"),
    [
        ([], False, False),
        (["SchedulerQueueingHints=true"], True, False),
        (["kube:SchedulerQueueingHints=T, VolumeCapacityPriority=1"], True, True),
        (["SchedulerQueueingHints=true", "SchedulerQueueingHints=false"], False, False),
        (["AllBeta=true"], True, False),
        (["AllAlpha=true"], False, True),
        (["SchedulerQueueingHints=false,AllBeta=true"], False, False),
        ([""], False, False),
    ],
)
def test_gates_that_change_decisions_are_followed(texts: list[str], hints: bool, capacity: bool) -> None:
    gates, without_effect = resolve_gates(parse_gates(text) for text in texts)
    assert (gates.scheduler_queueing_hints, gates.volume_capacity_priority) == (hints, capacity)
    assert without_effect == ()


def test_other_gates_are_accepted_and_named_where_they_differ_from_the_default() -> None:
    given = parse_gates("NodeSwap=false,InPlacePodVerticalScaling=true,SidecarContainers=true")
    assert resolve_gates([given]).without_effect == ("NodeSwap", "InPlacePodVerticalScaling")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Nonsense=true", "unrecognized feature gate: Nonsense"),
        ("SchedulerQueueingHints", "missing bool value for SchedulerQueueingHints: write SchedulerQueueingHints=true"),
        ("SchedulerQueueingHints=yes", "invalid value of SchedulerQueueingHints: 'yes' is neither true nor false"),
        ("wardle:SchedulerQueueingHints=true", "component 'wardle' is not known"),
        ("AppArmor=false", "cannot set feature gate AppArmor to false, feature is locked to true"),
    ],
)
def test_what_kube_scheduler_refuses_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_gates(text)


def test_the_table_has_the_gates_that_matter_to_scheduling() -> None:
    assert KNOWN_GATES["SchedulerQueueingHints"] == ("Beta", False, False)
    assert KNOWN_GATES["DynamicResourceAllocation"] == ("Alpha", False, False)
    assert KNOWN_GATES["PodSchedulingReadiness"] == ("GA", True, True)
