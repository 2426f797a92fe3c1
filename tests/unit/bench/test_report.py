import io
import json

import pytest

from bench.figures import Row
from bench.report import Report, render

ROWS: list[Row] = [
    {"class": "plain", "nodes": 100, "p50": 0.2784, "peer": None, "reached": True},
    {"class": "spread", "nodes": 5000, "p50": 12345.6, "peer": None, "reached": False},
]


def test_a_table_is_aligned_and_leaves_out_what_nobody_has() -> None:
    assert render(ROWS).splitlines() == [
        "class   nodes     p50  reached",
        "plain     100   0.278      yes",
        "spread  5,000  12,346       NO",
    ]


def test_a_missing_figure_among_others_is_a_dash() -> None:
    lines = render([{"plugin": "NodeName", "100": None}, {"plugin": "NodePorts", "100": 1.5}]).splitlines()
    assert lines[1:] == ["NodeName     -", "NodePorts  1.5"]


def test_each_row_is_a_line_of_json_with_its_part_and_table(capsys: pytest.CaptureFixture[str]) -> None:
    lines = io.StringIO()
    Report(lines).table("decision", "100 nodes", ROWS)

    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert found == [{"part": "decision", "table": "100 nodes", **row} for row in ROWS]
    assert "decision: 100 nodes\nclass" in capsys.readouterr().out
