import re

import pytest

from extender_service.config.feature_gates import parse_gates, resolve_gates


def wanted(text: str = "", minor: int = 31) -> dict[str, bool]:
    return dict(resolve_gates(parse_gates(text), minor).values)


@pytest.mark.parametrize(
    ("text", "hints", "capacity"),
    [
        ("", False, False),
        ("SchedulerQueueingHints=true", True, False),
        ("kube:SchedulerQueueingHints=T, VolumeCapacityPriority=1", True, True),
        ("SchedulerQueueingHints=true,SchedulerQueueingHints=false", False, False),
        ("AllBeta=true", True, False),
        ("AllAlpha=true", False, True),
        ("SchedulerQueueingHints=false,AllBeta=true", False, False),
    ],
)
def test_single_gates_override_those_of_a_stage_and_later_ones_earlier_ones(
    text: str, hints: bool, capacity: bool
) -> None:
    gates = wanted(text)
    assert (gates["SchedulerQueueingHints"], gates["VolumeCapacityPriority"]) == (hints, capacity)


def test_a_gate_has_the_default_of_the_release() -> None:
    assert not wanted()["SchedulerQueueingHints"]
    assert wanted(minor=32)["SchedulerQueueingHints"]
    assert "SchedulerQueueingHints" not in wanted(minor=37)


def test_a_stage_has_the_gates_that_are_of_this_stage_in_the_release() -> None:
    assert not wanted("AllBeta=false", minor=32)["SchedulerQueueingHints"]
    assert wanted("AllBeta=false", minor=34)["SchedulerQueueingHints"]


def test_gates_that_change_nothing_are_named_where_they_differ_from_the_default() -> None:
    given = parse_gates("NodeSwap=false,SidecarContainers=true")
    assert resolve_gates(given, 31).without_effect == ("NodeSwap",)
    assert resolve_gates(parse_gates("SchedulerQueueingHints=true"), 31).without_effect == ()


@pytest.mark.parametrize(
    ("minor", "text", "not_followed", "without_effect"),
    [
        (31, "InPlacePodVerticalScaling=true,NodeSwap=false", ("InPlacePodVerticalScaling",), ("NodeSwap",)),
        (32, "InPlacePodVerticalScaling=true", ("InPlacePodVerticalScaling",), ()),
        (33, "InPlacePodVerticalScaling=false", (), ()),
        (31, "SidecarContainers=false", ("SidecarContainers",), ()),
        (34, "DRAExtendedResource=true", ("DRAExtendedResource",), ()),
        (34, "NominatedNodeNameForExpectation=true", ("NominatedNodeNameForExpectation",), ()),
        (
            36,
            "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true",
            ("WorkloadAwarePreemption",),
            ("GangScheduling",),
        ),
        # Off, as this program decides in any case.
        (36, "DRAExtendedResource=false", (), ("DRAExtendedResource",)),
        (34, "MatchLabelKeysInPodTopologySpread=false", ("MatchLabelKeysInPodTopologySpread",), ()),
        (37, "", (), ()),
        (31, "AllAlpha=true", ("InPlacePodVerticalScaling",), ()),
    ],
)
def test_gates_by_which_only_kube_scheduler_decides_are_named(
    minor: int, text: str, not_followed: tuple[str, ...], without_effect: tuple[str, ...]
) -> None:
    settings = resolve_gates(parse_gates(text), minor)
    assert (settings.not_followed, settings.without_effect) == (not_followed, without_effect)


def test_gates_that_a_later_release_will_refuse_are_named() -> None:
    given = parse_gates("SchedulerQueueingHints=true,SchedulerAsyncPreemption=true")
    assert resolve_gates(given, 33).to_be_removed == ()
    assert resolve_gates(given, 34).to_be_removed == ("SchedulerQueueingHints",)
    assert resolve_gates({"AllBeta": True}, 34).to_be_removed == ()
    assert resolve_gates(parse_gates("ChangeContainerStatusOnKubeletRestart=true"), 35).to_be_removed == (
        "ChangeContainerStatusOnKubeletRestart",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SchedulerQueueingHints", "missing bool value for SchedulerQueueingHints: write SchedulerQueueingHints=true"),
        ("SchedulerQueueingHints=yes", "invalid value of SchedulerQueueingHints: 'yes' is neither true nor false"),
        ("wardle:SchedulerQueueingHints=true", "component 'wardle' is not known"),
    ],
)
def test_text_that_sets_no_gate_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_gates(text)


@pytest.mark.parametrize(
    ("minor", "text", "problem"),
    [
        (31, "Nonsense=true", "unrecognized feature gate: Nonsense$"),
        (31, "NodeDeclaredFeatures=true", "NodeDeclaredFeatures in 1.31; 1.35, 1.36, 1.37 have it$"),
        (37, "SidecarContainers=true", "SidecarContainers in 1.37; 1.31, 1.32, 1.33, 1.34, 1.35, 1.36 have it$"),
        (31, "AppArmor=false", "cannot set feature gate AppArmor to false, feature is locked to true"),
        (34, "SchedulerQueueingHints=0", "cannot set feature gate SchedulerQueueingHints to false, feature is locked"),
    ],
)
def test_what_kube_scheduler_of_the_release_refuses_is_refused(minor: int, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        resolve_gates(parse_gates(text), minor)


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    assert wanted("SchedulerQueueingHints=true", minor=34)["SchedulerQueueingHints"]


NEEDS = " is enabled, but depends on features that are disabled: "
PARTS = f"InPlacePodLevelResourcesVerticalScaling{NEEDS}"
CAPACITY = f"DRAFractionalCapacityRange{NEEDS}"
TOPOLOGY = f"TopologyAwareWorkloadScheduling{NEEDS}"


@pytest.mark.parametrize(
    ("minor", "text", "problem"),
    [
        (35, "InPlacePodLevelResourcesVerticalScaling=true", f"{PARTS}[NodeDeclaredFeatures]"),
        (36, "PodLevelResources=false", f"{PARTS}[PodLevelResources]"),
        (
            37,
            "TopologyAwareWorkloadScheduling=true,DRAFractionalCapacityRange=true,DRAConsumableCapacity=false",
            f"{CAPACITY}[DRAConsumableCapacity]; {TOPOLOGY}[GenericWorkload]",
        ),
    ],
)
def test_a_gate_that_is_on_needs_those_that_it_depends_on(minor: int, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        resolve_gates(parse_gates(text), minor)


def test_gates_that_are_on_by_default_need_others_too() -> None:
    with pytest.raises(ValueError, match=f"^ExtendWebSocketsToKubelet{NEEDS}") as error:
        resolve_gates(parse_gates("NodeDeclaredFeatures=false"), 36)
    assert f"{PARTS}[NodeDeclaredFeatures]" in str(error.value)


@pytest.mark.parametrize(
    ("minor", "text"),
    [
        (34, "DynamicResourceAllocation=false"),
        (35, "InPlacePodLevelResourcesVerticalScaling=true,NodeDeclaredFeatures=true"),
        (36, "AllAlpha=true"),
        (37, "AllAlpha=true,AllBeta=true"),
        (37, "AllBeta=false"),
    ],
)
def test_gates_may_be_set_together_with_those_that_they_depend_on(minor: int, text: str) -> None:
    assert wanted(text, minor)
