"""Compare the scheduling queue with kube-scheduler's on new scripts: of v1.31.1, or of v1.37.2.

python -m tests.lockstep.queue [--emulated-version 1.37] [--scripts N] [--seed SEED]
"""

from extender_service.config.release import OLDEST_MINOR, version_of
from tests.lockstep.new_cases import parser, run
from tests.lockstep.queue.comparison import REFERENCES, compare
from tests.lockstep.queue.generator import generate

if __name__ == "__main__":
    versions = {version_of(minor): minor for minor in REFERENCES}
    options = parser("queue", __doc__, "scripts", 10_000)
    options.add_argument(
        "--emulated-version", choices=versions, default=version_of(OLDEST_MINOR), help="the release to follow"
    )
    args = options.parse_args()
    minor = versions[args.emulated_version]
    run(args, lambda seed: generate(seed, minor), lambda scripts: compare(scripts, minor), batch=100)
