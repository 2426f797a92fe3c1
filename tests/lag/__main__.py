"""Make room for pods while the watches of the service are late: python -m tests.lag."""

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

from tests.e2e.support.programs.control_plane import ControlPlane
from tests.lag.rounds import ROUNDS, complaints
from tests.lag.scene import Setting, lagging_scene
from tests.lag.settings import LAGS, PRIORITY_CLASSES
from tests.support import go_programs


def main() -> int:
    """Print what became of each round; returns the exit status."""
    rounds = "\n".join(f"  {name:14}{act.__doc__}" for name, act in ROUNDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.lag",
        description=f"{__doc__}\n\nrounds:\n{rounds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=int, default=20, metavar="N", help="rounds in each setting (default: 20)")
    parser.add_argument("--round", action="append", choices=ROUNDS, metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--lag", action="append", type=float, metavar="SECONDS", help=f"only this lag (of {LAGS})")
    parser.add_argument("--mode", action="append", choices=["replace", "beside"], help="only this mode")
    parser.add_argument("--servers", action="append", type=int, choices=[1, 2], help="only so many API servers")
    options = parser.parse_args()
    controlplane = go_programs.build(Path(__file__).parents[1] / "e2e" / "controlplane")
    found = []
    for mode, lag, servers in itertools.product(
        options.mode or ["replace", "beside"], options.lag or LAGS, options.servers or [1, 2]
    ):
        setting = Setting(mode, lag, servers == 2)
        with tempfile.TemporaryDirectory(prefix="lag-") as folder:
            directory = Path(folder)
            with ControlPlane(controlplane, directory) as control_plane:
                control_plane.api.create(*PRIORITY_CLASSES)
                with lagging_scene(control_plane, directory, setting) as scene:
                    for kind in options.round or ROUNDS:
                        wrong = complaints(scene, kind, options.times, lambda line: print(line, flush=True))
                        found += [f"{setting}: {each}" for each in wrong]
    print("\n".join(["", *(found or ["no pod waited for too long, and no pod ended for nothing"])]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
