"""Play random scripts on the model of the API server and on a real one, and print where they differ, shortened.

python -m tests.worlds.model_check [--scripts N] [--seed SEED] [--version 1.37]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

from extender_service.config.release import OLDEST_MINOR, version_of
from tests.e2e.support.programs.control_plane import PROGRAMS, ControlPlane
from tests.support import go_programs
from tests.worlds.model_check.comparison import Comparison

_MOST_PRINTED = 5


def main() -> int:
    versions = {version_of(minor): minor for minor in PROGRAMS}
    parser = argparse.ArgumentParser("python -m tests.worlds.model_check", description=__doc__)
    parser.add_argument("--scripts", type=int, default=500, help="how many scripts to play")
    parser.add_argument("--seed", type=int, help="of the first script; a new one each time if not given")
    parser.add_argument("--version", choices=versions, default=version_of(OLDEST_MINOR), help="the release")
    options = parser.parse_args()
    seed = SystemRandom().randrange(10**6) if options.seed is None else options.seed
    minor = versions[options.version]
    started, differences = time.monotonic(), 0
    with (
        tempfile.TemporaryDirectory() as directory,
        ControlPlane(go_programs.build(PROGRAMS[minor]), Path(directory), starts_compacted=True) as plane,
    ):
        comparison = Comparison(plane.url, plane.authority.cert_pem.bytes().decode(), plane.token, minor)
        for found in comparison.run(range(seed, seed + options.scripts)):
            if found is not None:
                differences += 1
                if differences <= _MOST_PRINTED:
                    print(comparison.shorten(found), flush=True)
    seconds = time.monotonic() - started
    print(f"{options.scripts} scripts from seed {seed}: {differences} differ; {seconds:.0f} s")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
