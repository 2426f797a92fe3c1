"""How long plugins may take in one decision, unless --decision-timeout says otherwise: in `serve` and in `schedule`."""

from typing import Final

# kube-scheduler waits for 5 s for an extender, unless its configuration says otherwise.
DEFAULT_DECISION_SECONDS: Final = 4.0
