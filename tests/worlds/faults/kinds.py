"""All kinds of faults."""

from typing import Final

from tests.worlds.faults.answers import ANSWER_FAULTS
from tests.worlds.faults.api_servers import API_SERVER_FAULTS
from tests.worlds.faults.cluster import CLUSTER_FAULTS
from tests.worlds.faults.network import NETWORK_FAULTS
from tests.worlds.faults.programs import PROGRAM_FAULTS

ALL_KINDS: Final = (*PROGRAM_FAULTS, *NETWORK_FAULTS, *API_SERVER_FAULTS, *ANSWER_FAULTS, *CLUSTER_FAULTS)
