"""Everything that is measured, beside the peers, in one run: python -m bench.

A part alone: python -m bench.PART. It takes two hours; with --quick some minutes.
"""

from bench import cycle, decision, http, preemption, stages, startup, throughput, unique_labels, watch
from bench.run import main

PARTS = (decision, preemption, http, cycle, stages, watch, throughput, unique_labels, startup)

main("python -m bench", __doc__, [part.run for part in PARTS])
