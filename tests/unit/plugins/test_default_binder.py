import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.kube.api_errors import ApiError, ApiStatus, KubeError, RefusedError, UnreachableError
from extender_service.plugins.default_binder import DefaultBinder
from tests.support.clusters.scheduler_world import Api
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod


def refusal(code: int) -> ApiError:
    return ApiError(ApiStatus(code, "", "no"))


@pytest.mark.parametrize(
    ("minor", "errors", "is_bound"),
    [
        (36, [], True),
        (36, [refusal(503)], False),
        (37, [refusal(503), RefusedError("nothing listens"), refusal(500)], True),
        (37, [refusal(500)] * 4, False),
        (37, [refusal(409)], False),
        # The pod may be bound: who made the placement finds out.
        (37, [UnreachableError("the answer was lost")], False),
    ],
)
@in_event_loop
async def test_from_1_37_on_a_binding_is_posted_again_while_the_api_server_is_in_trouble(
    minor: int, errors: list[KubeError], is_bound: bool
) -> None:
    api, pod = Api(), make_pod("web")
    api.pods["default", "web"] = pod
    api.errors["bind", "web"] = list(errors)
    binder = DefaultBinder(None, Handle(Cluster(rules_of(minor)), api))
    if is_bound:
        await binder.bind(CycleState(pod), pod, "a")
    else:
        with pytest.raises(type(errors[-1])):
            await binder.bind(CycleState(pod), pod, "a")
    assert (api.named("bind"), api.errors["bind", "web"]) == (["web"] if is_bound else [], [])
