"""DefaultBinder: binds a pod by the API server's binding subresource."""

from functools import partial
from typing import ClassVar

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Bind
from extender_service.kube.connection.retries import is_transient, with_retries
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid


class DefaultBinder(Bind):
    """Posts a Binding, with the pod's UID as precondition."""

    name: ClassVar[str] = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Bind the pod. Raises KubeError; the pod may be bound all the same."""
        bind = partial(self.handle.pods.bind_pod, pod.metadata.namespace, pod.metadata.name, pod_uid(pod), node_name)
        if self.handle.rules.bindings_retried:
            await with_retries(bind, is_transient, self.handle.sleep)
        else:
            await bind()
