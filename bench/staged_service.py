"""The service, of which each stage of a call is timed: python -m bench.staged_service FILE serve ...

FILE gets what bench.stages reads when the service has ended: the milliseconds of each stage, call by call.
"""

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from extender_service import cli
from extender_service.cluster.cluster import Cluster
from extender_service.cluster.placements import Placements
from extender_service.extender import app, candidates, filter, node_names  # noqa: A004 - the verb
from extender_service.framework import runtime
from extender_service.limited_http import LimitedHTTP
from extender_service.whole_answers import WholeAnswers

_ENDPOINT = app._Endpoint  # noqa: SLF001 - what is timed need not be public
# What is timed, in the order in which a call comes to it. Some are parts of others.
STAGES: tuple[tuple[str, Any, str], ...] = (
    ("reading what has come", LimitedHTTP, "data_received"),
    ("the call, until it is answered", _ENDPOINT, "__call__"),
    ("  decoding", node_names.ExtenderArgsDecoder, "decode"),
    ("  dropping what was expected of the pod", Cluster, "drop_placement"),
    ("  finding the nodes", candidates.CandidateFinder, "find"),
    ("  the decision", filter, "decide"),
    ("    PreFilter", runtime, "run_pre_filter"),
    ("    Filter", runtime, "run_filter"),
    ("    PreScore", runtime, "run_pre_score"),
    ("    Score", runtime, "run_score"),
    ("  expecting the pod", Placements, "expect"),
    ("  answering", app, "answer"),
    ("    writing", WholeAnswers, "on_response_complete"),
    ("log and metrics, after the answer", _ENDPOINT, "_tell"),
    ("catching up, after that", Cluster, "catch_up"),
)
_ASYNC = ("__call__", "answer")

_times: defaultdict[str, list[float]] = defaultdict(list)


def _time(stage: str, owner: Any, name: str) -> None:
    function = getattr(owner, name)

    def timed(*args: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*args, **options)
        finally:
            _times[stage].append(1000 * (time.perf_counter() - started))

    async def timed_to_the_end(*args: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return await function(*args, **options)
        finally:
            _times[stage].append(1000 * (time.perf_counter() - started))

    setattr(owner, name, timed_to_the_end if name in _ASYNC else timed)


def main() -> int:
    """Run the command line, then write down the times."""
    file = Path(sys.argv.pop(1))
    for stage in STAGES:
        _time(*stage)
    try:
        return cli.main()
    finally:
        file.write_text(json.dumps(_times))


if __name__ == "__main__":
    sys.exit(main())
