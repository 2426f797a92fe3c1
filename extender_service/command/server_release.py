"""Which rules decide where --emulated-version does not say: those of the API server's release."""

import asyncio
import logging

from extender_service.command.emulation import EmulationOptions
from extender_service.config.rules import Rules
from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.backoff import Backoff
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.server_version import server_minor
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import Credentials

log = logging.getLogger(__name__)

_LONGEST_PAUSE_SECONDS = 5.0


async def rules_for_server(emulation: EmulationOptions, credentials: Credentials) -> Rules:
    """Return the rules; ask the API server for its release until it answers, unless the options say which to follow.

    Raises StartError for a feature gate that cannot be set.
    """
    if emulation.minor is not None:
        return emulation.rules()
    backoff = Backoff(limit_seconds=_LONGEST_PAUSE_SECONDS)
    async with KubeClient(credentials) as client:
        while True:
            try:
                return emulation.rules(await server_minor(client))
            except (KubeError, CredentialsError) as error:
                log.warning("waiting for the release of the API server", extra={"error": str(error)})
            await asyncio.sleep(backoff.next_delay())
