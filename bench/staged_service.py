"""Runs the service with a timer on each stage of a call: python -m bench.staged_service FILE serve ...

When the service ends, it writes the milliseconds of each stage and call to FILE, for bench.stages.
"""

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from extender_service.cluster.state.cluster import Cluster
from extender_service.command import cli
from extender_service.extender import app
from extender_service.extender.reporting import observer
from extender_service.extender.reporting.call_metrics import CallMetrics
from extender_service.extender.wire import nodes_args as node_names
from extender_service.extender.wire import requested_nodes as candidates
from extender_service.scheduling import decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.reuse.ahead import DecidingAhead
from extender_service.serving.limited_http import LimitedHTTP
from extender_service.serving.whole_answers import WholeAnswers

_READING = "reading what has come"
_EXPECTING = "  placing the pod"
# The timed functions, in the order in which a call reaches them. Indented stages are parts of the one above.
STAGES: tuple[tuple[str, Any, str], ...] = (
    (_READING, LimitedHTTP, "data_received"),
    ("the call, until it is answered", app._Endpoint, "__call__"),  # noqa: SLF001 - no public function spans the whole call
    ("  decoding", node_names.ExtenderArgsDecoder, "decode"),
    ("  deciding, or finding what was decided ahead", Engine, "decide"),
    ("    finding the nodes", candidates.RequestedNodes, "find"),
    ("  choosing one of the best nodes", decision.Decision, "choose"),
    (_EXPECTING, Engine, "place"),
    ("  answering", app, "answer"),
    ("    writing", WholeAnswers, "on_response_complete"),
    ("deciding ahead, after the answer", DecidingAhead, "prepare"),
    ("  PreFilter", decision, "run_pre_filter"),
    ("  Filter", decision, "run_filter"),
    ("  PreScore", decision, "run_pre_score"),
    ("  Score", decision, "run_score"),
    ("metrics", CallMetrics, "observe"),
    ("log", observer, "log_decision"),
    ("catching up, where nothing was decided ahead", Cluster, "catch_up"),
)
_ASYNC = ("__call__", "answer")

_times: defaultdict[str, list[float]] = defaultdict(list)
# The stages since the last read.
_current: list[tuple[str, float]] = []


def _note(stage: str, started: float) -> None:
    if stage == _READING:
        # kubecycle also reports deleted pods, by calls about them without a node. Do not count those.
        if any(of == _EXPECTING for of, _ in _current):
            for of, milliseconds in _current:
                _times[of].append(milliseconds)
        _current.clear()
    _current.append((stage, 1000 * (time.perf_counter() - started)))


def _time(stage: str, owner: Any, name: str) -> None:
    function = getattr(owner, name)

    def timed(*args: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            _note(stage, started)

    async def timed_to_the_end(*args: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return await function(*args, **options)
        finally:
            _note(stage, started)

    setattr(owner, name, timed_to_the_end if name in _ASYNC else timed)


def main() -> int:
    """Run the command line, then write the times to FILE."""
    file = Path(sys.argv.pop(1))
    for stage in STAGES:
        _time(*stage)
    try:
        return cli.main()
    finally:
        file.write_text(json.dumps(_times))


if __name__ == "__main__":
    sys.exit(main())
