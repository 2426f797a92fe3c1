"""Runs all benchmarks, with the peers for comparison: python -m bench.

This takes three hours; with --quick, half an hour. To run one part: python -m bench.PART.
"""

from bench import cycle, decision, http, preemption, stages, startup, throughput, unique_labels, watch
from bench.run import main
from bench.scheduler import comparison

PARTS = (decision, preemption, http, cycle, stages, watch, throughput, comparison, unique_labels, startup)

main("python -m bench", __doc__, [part.run for part in PARTS])
