"""Let replicas of the scheduler place 5,600 pods on 1,000 nodes, while they and the API server fail in every way.

    python -m tests.scheduler_faults

The leader is partitioned, frozen, killed and stopped while a standby waits; all replicas are killed; the API server is
restarted; nodes come, go and are cordoned. It fails unless every pod is bound once and none is over a node's capacity,
as the API server has it; unless its audit log has no write by a leader after the next one's acquireTime; and unless
kube-scheduler's own plugins would have decided the same each time.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.conformance import oracle
from tests.scheduler_faults.faults import FAULTS
from tests.scheduler_faults.run import Size, run
from tests.support import go_programs

_MOST_SHOWN = 20


def main() -> int:
    """Print what happened and what is wrong; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.scheduler_faults", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--hundreds", type=int, default=10, metavar="N", help="nodes, in hundreds, with 560 pods each (default 10)"
    )
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="how often each fault happens (default 1)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="for pods and nodes (default: the time)")
    parser.add_argument(
        "--fault", action="append", choices=[fault.__name__ for fault in FAULTS], help="only these (default: all)"
    )
    parser.add_argument("--log", type=Path, metavar="DIRECTORY", help="keep all logs there; its path must be short")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if not options.fault or fault.__name__ in options.fault]
    size = Size(hundreds=options.hundreds, rounds=options.rounds, faults=faults)
    controlplane = go_programs.build(Path(__file__).parents[1] / "e2e" / "controlplane")
    go_programs.build(oracle.ORACLE)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        directory = options.log or Path(folder)
        directory.mkdir(exist_ok=True)
        outcome = run(controlplane, directory, oracle.ask, size, options.seed, lambda line: print(line, flush=True))
    for line in outcome.report:
        print(line)
    for complaint in outcome.complaints[:_MOST_SHOWN]:
        print(f"WRONG: {complaint}")
    print(f"{len(outcome.complaints)} complaints")
    return 1 if outcome.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
