"""Writes fields.json, which fields Kubernetes v1.37.2 has and which packages read them: python -m tests.api_fields"""

import subprocess
from pathlib import Path

from tests.support.go_programs import build

PROGRAM = Path(__file__).parents[1] / "kubernetes_1_37" / "api_fields"
TABLE = Path(__file__).with_name("fields.json")


def fields_table() -> str:
    """Return the table. Needs Go; the first time, this compiles kube-scheduler."""
    done = subprocess.run([build(PROGRAM)], cwd=PROGRAM, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


if __name__ == "__main__":
    TABLE.write_text(fields_table())
