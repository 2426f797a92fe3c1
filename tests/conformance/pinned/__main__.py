"""Ask the oracle about the pinned cases, and write its verdicts: python -m tests.conformance.pinned."""

from tests.conformance import oracle
from tests.conformance.pinned.cases import VERDICTS, pinned_lines

if __name__ == "__main__":
    VERDICTS.write_bytes(oracle.ask(b"".join(pinned_lines())))
