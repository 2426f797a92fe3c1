"""The report of benchmarks: tables on standard output, and each row as a line of JSON."""

import json
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from typing import TextIO

from bench.figures import Cell, Row


class Report:
    """Prints tables. With `lines`, also appends each row to that file as JSON."""

    def __init__(self, lines: TextIO | None) -> None:
        self._lines = lines
        self.has_failed = False
        load = ", ".join(f"{average:.2f}" for average in os.getloadavg())
        print(f"{os.cpu_count()} cores, load {load}, Python {platform.python_version()}; times in milliseconds")

    def table(self, part: str, title: str, rows: Sequence[Row]) -> None:
        """Print rows of the same columns. None is a value of a program that did not run."""
        print(f"\n{part}: {title}")
        print(render(rows), flush=True)
        for row in rows:
            self.line(part, title, row)

    def line(self, part: str, title: str, row: Row) -> None:
        """Append a row as JSON without printing it."""
        if self._lines is not None:
            print(json.dumps({"part": part, "table": title, **row}), file=self._lines, flush=True)

    def progress(self, part: str, text: str) -> None:
        """Print the next step if the output is a terminal: a part may take minutes until its table."""
        if sys.stderr.isatty():
            print(f"\r\033[K{part}: {text} …", end="\r", file=sys.stderr, flush=True)

    def failure(self, part: str, what: str, error: Exception) -> None:
        """Print an error that the run goes on after, but fails for in the end."""
        self.has_failed = True
        self.note(part, f"{what}: {error!r}")
        traceback.print_exception(error)

    def note(self, part: str, text: str) -> None:
        """Print a line of text between the tables."""
        print(f"\n{part}: {text}", flush=True)


def render(rows: Sequence[Row]) -> str:
    """Return a table as text: a line of column names, and one for each row. Leaves out empty columns."""
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
