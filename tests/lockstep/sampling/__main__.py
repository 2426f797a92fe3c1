"""Compare sampling with kube-scheduler's, 200 pods a script: python -m tests.lockstep.sampling [--scripts N]."""

from tests.lockstep.new_cases import compare_scripts
from tests.lockstep.sampling.comparison import compare
from tests.lockstep.sampling.generator import generate

if __name__ == "__main__":
    compare_scripts("sampling", __doc__, generate, compare, scripts=200, batch=10)
