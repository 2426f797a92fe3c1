"""Asks the API server which release of Kubernetes it is."""

import re
from typing import Any

from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient

# Providers add to the minor, such as 34+.
_NUMBER = re.compile(r"[0-9]{1,4}", re.ASCII)


async def server_minor(client: KubeClient) -> int:
    """Return the minor of the release 1.x that the API server emulates, which is its own or an older one.

    It has the APIs and feature gates of that release. Before 1.33, it reports only its own.
    Raises KubeError and CredentialsError.
    """
    answer = await client.exchange("GET", "/version")
    minor = _minor(answer, "emulationMajor", "emulationMinor")
    if minor is None:
        minor = _minor(answer, "major", "minor")
    if minor is None:
        raise KubeError(f"GET /version: the answer has no version of Kubernetes: {str(answer)[:200]}")
    return minor


def _minor(answer: dict[str, Any], *names: str) -> int | None:
    """Return the minor of the release 1.x that the fields of both names say together."""
    major, minor = (_NUMBER.match(str(answer.get(name, ""))) for name in names)
    return None if major is None or minor is None or major[0] != "1" else int(minor[0])
