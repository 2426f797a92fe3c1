"""Make faults happen between the service and a real API server, under load: python -m tests.faults."""

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.e2e.support.programs.control_plane import ControlPlane
from tests.faults.faults import FAULTS
from tests.faults.matrix import run, table
from tests.faults.scene import Scene
from tests.support import go_programs


def main() -> int:
    """Print what became of each fault; returns the exit status."""
    faults = "\n".join(f"  {name:22}{fault.__doc__}" for name, fault in FAULTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description=f"{__doc__}\n\nfaults:\n{faults}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=int, default=20, metavar="N", help="how often each happens (default: 20)")
    parser.add_argument("--fault", action="append", choices=FAULTS, metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--seed", type=int, help="what a run that failed has printed; times still vary")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep the service's log there")
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    controlplane = go_programs.build(Path(__file__).parents[1] / "e2e" / "controlplane")
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        directory = Path(folder)
        with ControlPlane(controlplane, directory) as control_plane, Scene(control_plane, directory, seed) as scene:
            outcomes = run(scene, options.fault or FAULTS, options.times, lambda line: print(line, flush=True))
        if options.log:
            shutil.copy(scene.service.log, options.log)
    print("\n".join(["", *table(outcomes)]))
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
