from typing import Any, ClassVar

import pytest

from extender_service.framework.interface import Plugin
from extender_service.framework.registry.reads import ReadsError, check_reads
from extender_service.kube.types.core import Node, Pod, Taint
from extender_service.kube.types.storage import StorageClass
from extender_service.kube.types.workloads import Namespace, Service
from extender_service.plugins.in_tree import IN_TREE

RIGHT = r"reads must be a frozenset of Service, ReplicaSet, .*, Namespace, .*, PersistentVolume, .*, VolumeAttachment"


def reading(kinds: Any) -> type[Plugin]:
    class Reader(Plugin):
        name: ClassVar[str] = "Reader"
        reads: ClassVar[Any] = kinds

    return Reader


@pytest.mark.parametrize(
    "kinds", [frozenset(), frozenset({Namespace, StorageClass}), {Service}, (Service,), frozenset({Service, Node, Pod})]
)
def test_kinds_that_the_cluster_keeps_may_be_read(kinds: Any) -> None:
    check_reads(reading(kinds))


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (Service, "it is Service"),
        ("Service", "it is 'Service'"),
        (None, "it is None"),
        (frozenset({"Service"}), "it has 'Service'"),
        (frozenset({Service, Taint}), "it has Taint"),
        (frozenset({Taint, "Service", Namespace}), "it has 'Service', Taint"),
    ],
)
def test_anything_else_is_an_error_that_says_what_is_right(kinds: Any, found: str) -> None:
    with pytest.raises(ReadsError, match=f"^{RIGHT}; {found}$"):
        check_reads(reading(kinds))


@pytest.mark.parametrize("plugin", IN_TREE)
def test_in_tree_plugins_read_what_there_is(plugin: type[Plugin]) -> None:
    check_reads(plugin)
