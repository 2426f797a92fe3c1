"""Compare the scheduling queue with kube-scheduler's on new scripts: python -m tests.lockstep.queue [--scripts N]."""

from tests.lockstep.new_cases import compare_scripts
from tests.lockstep.queue.comparison import compare
from tests.lockstep.queue.generator import generate

if __name__ == "__main__":
    compare_scripts("queue", __doc__, generate, compare, scripts=10_000, batch=100)
