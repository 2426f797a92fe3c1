"""What an extender is asked, and what its answers mean."""

import time

import pytest

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.config.types import Extender
from extender_service.kube.types.pending_pods import PendingPod
from extender_service.scheduler.extenders.access import posts_to
from extender_service.scheduler.extenders.extender_client import ExtenderClient, ExtenderError
from tests.support.event_loop import in_event_loop
from tests.support.servers.http_server import Request, Response, http_server


@in_event_loop
async def test_an_error_names_the_extender_without_the_password_of_its_url() -> None:
    async def answer(request: Request, response: Response) -> None:
        await response.send_json(200, {"NodeNames": ["stranger"]})

    async def pod_json(namespace: str, name: str) -> bytes:
        raise AssertionError("no victim is read")

    async with http_server(answer) as url:
        config = Extender(url_prefix=url.replace("//", "//anna:secret@"), filter_verb="filter", node_cache_capable=True)
        async with posts_to(config, "extenders[0]", time.time) as posts:
            client = ExtenderClient(config, posts, NodeTable(), pod_json)
            with pytest.raises(ExtenderError) as raised:
                await client.filter(PendingPod(whole_json=b"{}"), ["a"])
    assert str(raised.value) == (
        f'extender "{url}" claims a filtered node "stranger" which is not found in the input node list'
    )
