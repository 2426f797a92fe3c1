"""Golden cases: what the reference decided, kept so that everybody can compare with it, also without Go.

`python -m tests.conformance.golden [FAMILY...]` makes them anew, those of the families given or of all that there are.
They are in the folder golden/, two files a family: its cases, and the oracle's verdicts on them.
"""

import gzip
import sys
from pathlib import Path

from tests.conformance import oracle

FOLDER = Path(__file__).with_name("golden")
SEED = 1
CASES_PER_FAMILY = 80


def families() -> list[str]:
    """Return the families that have golden cases."""
    return sorted(path.name.removesuffix(_CASES) for path in FOLDER.glob(f"*{_CASES}"))


def cases_path(family: str) -> Path:
    """Return where the cases of a family are."""
    return FOLDER / f"{family}{_CASES}"


def verdicts_path(family: str) -> Path:
    """Return where the verdicts on them are."""
    return FOLDER / f"{family}{_VERDICTS}"


_CASES = ".cases.jsonl.gz"
_VERDICTS = ".verdicts.jsonl.gz"


def _make(family: str) -> None:
    cases = oracle.generate(SEED, CASES_PER_FAMILY, [family])
    for path, lines in ((cases_path(family), cases), (verdicts_path(family), oracle.ask(cases))):
        # Without a time, the same lines make the same file.
        path.write_bytes(gzip.compress(lines, mtime=0))
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or families():
        _make(name)
