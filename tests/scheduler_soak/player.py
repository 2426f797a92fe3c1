"""Plays a script on a cluster, by the clock."""

import threading
import time
from collections import Counter
from collections.abc import Sequence

from tests.e2e.support.api import API, APIError
from tests.scheduler_soak.script import Change

_NAMESPACED = {"Pod", "PersistentVolumeClaim"}


class Player:
    """Makes the changes of a script in a thread of its own, one after the other, each at its time.

    `answers` counts the changes by status code: 404 is about what the scheduler has preempted. `late_seconds` has by
    how much each was too late.
    """

    def __init__(self, api: API, changes: Sequence[Change]) -> None:
        self.answers: Counter[int] = Counter()
        self.late_seconds: list[float] = []
        self._api = api
        self._changes = changes
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._began_at = 0.0

    def start(self, began_at: float) -> None:
        """Begin; `began_at`, by time.monotonic, is the time 0 of the script."""
        self._began_at = began_at
        self._thread.start()

    def is_playing(self) -> bool:
        """Whether changes are left. Raises what the thread has raised."""
        if self._error is not None:
            raise self._error
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            for change in self._changes:
                due_at = self._began_at + change.at_seconds
                time.sleep(max(0.0, due_at - time.monotonic()))
                self.late_seconds.append(time.monotonic() - due_at)
                self.answers[self._make(change)] += 1
        except BaseException as error:
            self._error = error

    def _make(self, change: Change) -> int:
        path = self._api.path(change.kind, "default" if change.kind in _NAMESPACED else "")
        if change.method != "POST":
            path += f"/{change.name}"
        if change.subresource:
            path += f"/{change.subresource}"
        try:
            self._api.request(change.method, path, change.body)
        except APIError as error:
            if error.status_code != 404:
                raise
            return 404
        return 200
