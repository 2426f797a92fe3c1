"""Which events a registered event matches, as framework.ClusterEvent.Match of kube-scheduler."""

import pytest

from extender_service.framework.cluster_event import NODE, POD, WILD_CARD, ActionType, ClusterEvent

ANYTHING = ClusterEvent(WILD_CARD, ActionType.ALL)
NODE_ADDED = ClusterEvent(NODE, ActionType.ADD)


@pytest.mark.parametrize(
    ("registered", "matches"),
    [
        (NODE_ADDED, True),
        (ClusterEvent(NODE, ActionType.ADD | ActionType.DELETE), True),
        (ClusterEvent(NODE, ActionType.UPDATE), False),
        (ClusterEvent(POD, ActionType.ADD), False),
        (ClusterEvent(WILD_CARD, ActionType.ADD), True),
        (ClusterEvent(WILD_CARD, ActionType.DELETE), False),
        (ANYTHING, True),
        (ClusterEvent(NODE, ActionType(0)), False),
    ],
)
def test_a_registered_event_matches_changes_of_its_resource(registered: ClusterEvent, matches: bool) -> None:
    assert registered.matches(NODE_ADDED) is matches


def test_any_change_of_anything_is_the_wild_card() -> None:
    assert ANYTHING.is_wild_card
    assert not ClusterEvent(WILD_CARD, ActionType.ADD).is_wild_card
    assert not ClusterEvent(NODE, ActionType.ALL).is_wild_card


def test_the_wild_card_matches_what_has_no_action() -> None:
    assert ANYTHING.matches(ClusterEvent(POD, ActionType(0)))


def test_an_update_is_each_part_of_a_node_or_pod() -> None:
    assert ActionType.ADD | ActionType.UPDATE | ActionType.DELETE == ActionType.ALL
    assert ActionType.UPDATE_NODE_TAINT in ActionType.UPDATE
