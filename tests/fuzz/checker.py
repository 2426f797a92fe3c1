"""Asks Go whether kube-scheduler could read an answer; see checker/main.go."""

import base64
import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fuzz.requests import Request
from tests.support import go_programs

PROGRAM = Path(__file__).with_name("checker")


class GoChecker:
    """The program, running for as long as the context lasts."""

    def __enter__(self) -> Self:
        command = [go_programs.build(PROGRAM)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.communicate()

    def complaint(self, request: Request, answer: bytes) -> str:
        """What is wrong with an answer that had status 200; empty if nothing is."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {
            "Verb": request.verb,
            "Request": base64.b64encode(request.body).decode(),
            "Answer": base64.b64encode(answer).decode(),
        }
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        complaint: str = json.loads(self._process.stdout.readline())
        return complaint
