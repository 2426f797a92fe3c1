"""NodeSetup: asks a service of yours before a pod is bound, and binds only if it agrees."""

import ssl
from typing import Annotated

import httpx
from prometheus_client import Counter
from pydantic import Field

from extender_service.plugin_api import SKIP, Code, CycleState, Handle, Model, Pod, PreBind, Status, unschedulable

SETUP = "example.com/setup"

# Such metrics are on /metrics. Define them once per module: each profile makes its own object of the plugin.
ANSWERS = Counter("node_setup_answers", "Answers of the setup service by their status code.", ["code"])


class NodeSetupArgs(Model):
    """Where to ask, and how long to wait for the answer."""

    url: Annotated[str, Field(pattern="^https?://")]
    timeout_seconds: Annotated[float, Field(gt=0)] = 30.0


class NodeSetup(PreBind):
    """Before a pod with the annotation `example.com/setup` is bound, posts the annotation, the pod and its node to
    `url`: to warm up a cache, to attach a licence, to wake a machine.

    The pod goes on after any 2xx answer. 409 rejects the pod: this node cannot be set up now. Any other answer is an
    error. In both cases kube-scheduler tries again later. In a simulation, nothing is asked: each node can be set up.
    """

    name = "NodeSetup"
    args_type = NodeSetupArgs
    args: NodeSetupArgs

    def __init__(self, args: NodeSetupArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        # Loading the certificates takes long enough to delay other calls: do it once, not for each pod.
        self._tls = ssl.create_default_context()

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Skip pods without the annotation: nothing waits for them, so they need no nomination before their binding."""
        return None if self._setup_for(pod) is not None else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Ask, and let other calls go on until the answer is there."""
        setup = self._setup_for(pod)
        if setup is None:
            return None
        # With the UID, the other side recognises a pod that it is asked about twice.
        wanted = {
            "setup": setup,
            "namespace": pod.metadata.namespace,
            "pod": pod.metadata.name,
            "uid": pod.metadata.uid,
            "node": node_name,
        }
        try:
            async with httpx.AsyncClient(verify=self._tls, timeout=self.args.timeout_seconds) as client:
                answer = await client.post(self.args.url, json=wanted)
        except httpx.HTTPError as error:
            return Status(Code.ERROR, (f"cannot set up {node_name}: {type(error).__name__}: {error}",))
        ANSWERS.labels(answer.status_code).inc()
        if answer.status_code == httpx.codes.CONFLICT:
            return unschedulable(f"node {node_name} cannot be set up: {answer.text}")
        if not answer.is_success:
            return Status(Code.ERROR, (f"cannot set up {node_name}: {self.args.url} answered {answer.status_code}",))
        return None

    def _setup_for(self, pod: Pod) -> str | None:
        """Return what to set up for a pod, None for nothing."""
        return None if self.handle.simulated else pod.metadata.annotations.get(SETUP)
