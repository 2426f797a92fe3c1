"""What the bench tells: tables on standard output, and each of their rows as a line of JSON."""

import json
import os
import platform
from collections.abc import Sequence
from typing import TextIO

from bench.figures import Cell, Row


class Report:
    """Prints tables; with `lines`, writes their rows there, too."""

    def __init__(self, lines: TextIO | None) -> None:
        self._lines = lines
        load = ", ".join(f"{average:.2f}" for average in os.getloadavg())
        print(f"{os.cpu_count()} cores, load {load}, Python {platform.python_version()}; times in milliseconds")

    def table(self, part: str, title: str, rows: Sequence[Row]) -> None:
        """Print rows that have the same columns; what was measured of a program that is not there is None."""
        print(f"\n{part}: {title}")
        print(render(rows), flush=True)
        if self._lines is not None:
            for row in rows:
                print(json.dumps({"part": part, "table": title, **row}), file=self._lines, flush=True)

    def note(self, part: str, text: str) -> None:
        """Print a line that is no figure."""
        print(f"\n{part}: {text}", flush=True)


def render(rows: Sequence[Row]) -> str:
    """A table as text: a line of column names, and one for each row; columns in which nothing stands are left out."""
    columns = [column for column in rows[0] if any(row[column] is not None for row in rows)]
    lines = [columns, *([_text(row[column]) for column in columns] for row in rows)]
    is_text = [any(isinstance(row[column], str) for row in rows) for column in columns]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if left else text.rjust(width)
            for text, width, left in zip(line, widths, is_text, strict=True)
        ).rstrip()
        for line in lines
    )


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "NO"
        case float():
            return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
        case int():
            return f"{cell:,}"
        case _:
            return cell
