"""Everything that is measured, beside the peers, in one run: python -m bench. A part alone: python -m bench.PART."""

from bench import cycle, decision, http
from bench.run import main

main("python -m bench", __doc__, [decision.run, http.run, cycle.run])
