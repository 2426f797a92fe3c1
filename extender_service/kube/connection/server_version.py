"""Asks the API server which release of Kubernetes it is."""

import re

from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient

# Providers add to the minor, such as 34+.
_NUMBER = re.compile(r"[0-9]{1,4}", re.ASCII)


async def server_minor(client: KubeClient) -> int:
    """Return the minor of the API server's release 1.x. Raises KubeError and CredentialsError."""
    answer = await client.exchange("GET", "/version")
    major, minor = (_NUMBER.match(str(answer.get(name, ""))) for name in ("major", "minor"))
    if major is None or minor is None or major[0] != "1":
        raise KubeError(f"GET /version: the answer has no version of Kubernetes: {str(answer)[:200]}")
    return int(minor[0])
