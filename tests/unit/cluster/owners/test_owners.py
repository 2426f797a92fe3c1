import itertools
from collections.abc import Callable

import pytest
from msgspec import structs

from extender_service.cluster.owners.owners import MOST_ANSWERS, MOST_SELECTIONS, Workload, Workloads
from extender_service.cluster.structures.shown_kinds import HiddenKindError
from extender_service.kube.parsing.selectors import EVERYTHING, label_set_selector
from extender_service.kube.types.core import LabelSelector, ObjectMeta
from extender_service.kube.types.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from extender_service.kube.types.workloads import Namespace, ReplicaSet, Service, ServiceSpec


def service(name: str, selector: dict[str, str] | None, namespace: str = "shop") -> Service:
    return Service(ObjectMeta(name=name, namespace=namespace), ServiceSpec(selector))


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(ObjectMeta(name=name, labels=labels))


def test_the_services_of_a_pod_are_those_of_its_namespace_that_select_it() -> None:
    workloads = Workloads()
    for item in (
        service("web", {"app": "web"}),
        service("front", {"app": "web", "tier": "front"}),
        service("all", {}),
        service("external", None),
        service("elsewhere", {"app": "web"}, "bank"),
    ):
        workloads.apply(item)
    assert sorted(map(len, workloads.service_selectors("shop", {"app": "web"}))) == [0, 1]
    assert list(workloads.service_selectors("bank", {"app": "web"})) == [{"app": "web"}]
    workloads.apply(service("web", {"app": "api"}))
    assert list(workloads.service_selectors("shop", {"app": "web"})) == [{}]
    workloads.remove(Service, ("shop", "all"))
    assert list(workloads.service_selectors("shop", {"app": "web"})) == []


def test_namespaces_are_selected_by_the_labels_that_they_have_now() -> None:
    workloads = Workloads()
    workloads.apply(namespace("shop", team="a"))
    workloads.apply(namespace("bank", team="b"))
    team_a = label_set_selector({"team": "a"})
    assert workloads.namespaces_selected_by(team_a) == {"shop"}
    workloads.apply(namespace("farm", team="a"))
    workloads.apply(namespace("shop", team="b"))
    assert workloads.namespaces_selected_by(team_a) == {"farm"}
    workloads.remove(Namespace, ("", "farm"))
    assert workloads.namespaces_selected_by(team_a) == set()
    assert workloads.namespaces_selected_by(EVERYTHING) == {"shop", "bank"}
    assert workloads.namespace_labels("bank") == {"team": "b"}
    assert workloads.namespace_labels("nowhere") == {}


def test_objects_are_replaced_by_what_is_there_now() -> None:
    workloads = Workloads()
    old, kept, new = (ReplicaSet(ObjectMeta(name=name, namespace="shop")) for name in ("old", "kept", "new"))
    workloads.replace(ReplicaSet, [old, kept])
    workloads.replace(ReplicaSet, [kept, new])
    assert workloads.keys(ReplicaSet) == [("shop", "kept"), ("shop", "new")]
    assert workloads.get(ReplicaSet, "shop", "new") == new
    assert workloads.get(ReplicaSet, "shop", "old") is None


def test_a_hidden_kind_is_kept_and_not_shown() -> None:
    workloads = Workloads()
    workloads.show_only({ReplicaSet})
    workloads.apply(namespace("shop", team="a"))
    for look in (lambda: workloads.of(Namespace), lambda: workloads.namespace_labels("shop")):
        with pytest.raises(HiddenKindError, match=r"^Namespace objects are not watched"):
            look()
    assert workloads.find(Namespace, ("", "shop")) == namespace("shop", team="a")
    assert workloads.find(Namespace, ("", "bank")) is None
    assert (workloads.get(ReplicaSet, "shop", "web"), workloads.keys(Namespace)) == (None, [("", "shop")])
    workloads.show_only({Namespace})
    assert workloads.namespace_labels("shop") == {"team": "a"}


def budget(name: str, **selects: str) -> PodDisruptionBudget:
    metadata = ObjectMeta(name=name, namespace="shop")
    return PodDisruptionBudget(metadata, PodDisruptionBudgetSpec(LabelSelector(selects)))


def test_budgets_protect_pods_from_when_they_are_made_until_they_are_gone() -> None:
    workloads = Workloads()
    workloads.apply(budget("web", app="web"))
    workloads.apply(budget("db", app="db"))
    workloads.apply(budget("nothing"))
    workloads.apply(service("web", {"app": "web"}))
    web, db = ({"app": "web"}, {"app": "db"})

    def protected() -> list[bool]:
        return [any(budget.pods.selector.matches(pod) for budget in workloads.disruption_budgets) for pod in (web, db)]

    assert protected() == [True, True]
    assert len(workloads.disruption_budgets) == 2
    workloads.remove(Service, ("shop", "web"))
    workloads.remove(PodDisruptionBudget, ("shop", "nothing"))
    assert protected() == [True, True]
    workloads.apply(budget("db"))
    assert protected() == [True, False]
    workloads.remove(PodDisruptionBudget, ("shop", "web"))
    assert protected() == [False, False]


def test_a_service_without_a_selector_comes_and_goes_quietly() -> None:
    workloads = Workloads()
    workloads.apply(service("external", None))
    workloads.apply(service("web", {"app": "web"}))
    workloads.remove(Service, ("shop", "external"))
    workloads.remove(Service, ("shop", "external"))
    assert workloads.keys(Service) == [("shop", "web")]


def test_after_each_change_the_count_is_one_that_never_was() -> None:
    workloads = Workloads()
    changes: list[Callable[[], None]] = [
        lambda: workloads.apply(namespace("shop", team="a")),
        lambda: workloads.apply(service("web", {"app": "web"})),
        lambda: workloads.apply(namespace("shop", team="b")),
        lambda: workloads.apply(namespace("shop", team="a")),
        lambda: workloads.remove(Namespace, ("", "shop")),
        lambda: workloads.remove(Service, ("shop", "web")),
    ]
    counts = [workloads.change_count]
    for change in changes:
        change()
        assert workloads.change_count > max(counts)
        counts.append(workloads.change_count)


@pytest.mark.parametrize(
    "item", [namespace("shop", team="a"), service("web", {"app": "web"}), budget("web", app="web")]
)
def test_a_new_version_of_the_same_is_known_and_no_change(item: Workload) -> None:
    workloads = Workloads()
    first, second = (
        structs.replace(item, metadata=structs.replace(item.metadata, resource_version=version)) for version in "12"
    )
    workloads.apply(first)
    count = workloads.change_count
    workloads.apply(second)
    assert workloads.change_count == count
    assert [known.metadata.resource_version for known in workloads] == ["2"]


def test_what_follows_from_these_objects_is_remembered_until_one_changes() -> None:
    workloads = Workloads()
    made = itertools.count(1)

    class Answers:
        def make(self, workloads: Workloads, key: int) -> int:
            return next(made)

    answers = Answers()

    def answer(key: int) -> int:
        return workloads.remembered(answers.make, key)

    assert [answer(1), answer(1), answer(2)] == [1, 1, 2]
    workloads.apply(service("web", {"app": "web"}))
    assert [answer(1), answer(1)] == [3, 3]
    workloads.remove(Service, ("shop", "web"))
    assert answer(1) == 4
    for key in range(300):
        answer(key)
        assert workloads.answer_count <= MOST_ANSWERS


def test_selections_of_namespaces_are_remembered_up_to_a_limit() -> None:
    workloads = Workloads()
    selectors = [label_set_selector({"team": str(number)}) for number in range(MOST_SELECTIONS)]
    for number, selector in enumerate((*selectors, selectors[0], EVERYTHING)):
        for _ in range(2):  # beyond a few, the second time shows that it will be asked for again
            workloads.namespaces_selected_by(selector)
        assert min(number + 1, MOST_SELECTIONS // 2) <= workloads.selection_count <= MOST_SELECTIONS
