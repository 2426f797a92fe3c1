"""What kube-scheduler's cycle is compared with."""

import io
import json
from pathlib import Path
from typing import Any

from bench.cycle import compare
from bench.programs import ClusterSize, Peers
from bench.report import Report
from bench.run import Run

WITH_SERVICE = 1.0
STOCK = {"-percent=100": 8.0, "-percent=0": 2.0}


class KnownPeers(Peers):
    """Peers with a `kubecycle` that takes so many milliseconds for each class of pods."""

    def _lines(self, program: str, *options: str) -> list[dict[str, Any]]:
        [classes] = [option.removeprefix("-classes=") for option in options if option.startswith("-classes=")]
        [stock] = [STOCK[option] for option in options if option in STOCK]
        milliseconds = WITH_SERVICE if "-replace" in options else stock
        return [{"class": name, "p50_ms": milliseconds, "p99_ms": milliseconds} for name in classes.split(",")]


def test_the_service_is_compared_with_stock_on_all_nodes_and_as_it_comes(tmp_path: Path) -> None:
    lines = io.StringIO()
    peers = KnownPeers(tmp_path)
    the = Run(quick=False, rounds=1, report=Report(lines), peers=peers, directory=tmp_path)

    compare(the, peers, ClusterSize(5000), "http://service")

    rows = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [
        (row["peer"], row["p50"], row["peer p50"], row["times faster"], row["target"])
        for row in rows
        if row["class"] == "plain"
    ] == [("stock 100 %", 1.0, 8.0, 8.0, ">= 3"), ("stock", 1.0, 2.0, 2.0, None)]
