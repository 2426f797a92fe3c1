"""All kinds of faults."""

from typing import Final

from tests.worlds.faults.network import NETWORK_FAULTS
from tests.worlds.faults.programs import PROGRAM_FAULTS

ALL_KINDS: Final = (*PROGRAM_FAULTS, *NETWORK_FAULTS)
