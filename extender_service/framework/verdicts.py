"""Which nodes pass so far during a decision, and why the others do not."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.plugin_errors import RAISED, CycleError, logged_failure
from extender_service.framework.status import Code, Rejections, Status


class Settled(NamedTuple):
    """A plugin's verdict, the positions of the nodes that this plugin was the first to reject, and their keys.

    `statuses` are those of keys that were asked for: the answer and the log need the same ones.
    """

    plugin: str
    rejections: Rejections
    positions: NDArray[np.intp]
    keys: NDArray[np.int64]
    statuses: dict[int, Status]

    def status_of(self, key: int) -> Status:
        """Return the status for a key, under the plugin's name. Raises CycleError if the plugin fails to give it."""
        status = self.statuses.get(key)
        if status is None:
            doing = f'running "{self.plugin}" filter plugin'
            try:
                given: object = self.rejections.status_of(key)
            except RAISED as error:
                raise logged_failure(doing, error) from error
            if not isinstance(given, Status):
                raise CycleError(f"{doing}: its Rejections have a {type(given).__name__}, not a Status")
            status = self.statuses[key] = given.given_by(self.plugin)
        return status


class Verdicts:
    """The outcome of Filter for each node of a view, decided by the first plugin that rejects the node.

    `passing` has one entry per node of the view. A node that does not pass and has no status was not asked about.
    """

    def __init__(self, view: NodeView, in_question: NDArray[np.bool_]) -> None:
        self.view = view
        self.passing = in_question.copy()
        self._settled: list[Settled] = []
        self._left_out: Rejections | None = None
        self._left = int(np.count_nonzero(self.passing))
        self._positions: NDArray[np.intp] | None = None
        self._remaining = view
        self._narrow()

    @classmethod
    def of_all(
        cls, view: NodeView, in_question: NDArray[np.bool_], rejections: Iterable[tuple[str, Rejections]]
    ) -> "Verdicts":
        """Return the verdicts of plugins of which each has judged all nodes of a view, in the order of the plugins."""
        verdicts = cls(view, in_question)
        for plugin, of_plugin in rejections:
            verdicts._settle(plugin, of_plugin, of_plugin.rejected, of_plugin.rejected)
        return verdicts

    @property
    def left(self) -> int:
        """How many nodes pass so far."""
        return self._left

    @property
    def remaining(self) -> NodeView:
        """The nodes that the next plugin judges: all that pass, and perhaps others, whose verdicts are ignored."""
        return self._remaining

    def reject(self, plugin: str, rejections: Rejections) -> None:
        """Apply a plugin's verdict on the nodes of `remaining`."""
        judged = rejections.rejected
        positions = judged if self._positions is None else self._positions[judged]
        if self._settle(plugin, rejections, judged, positions):
            self._narrow()

    def settled(self) -> Sequence[Settled]:
        """Return what each plugin that rejected nodes was the first to reject."""
        return self._settled

    def take_over(self, later: "Verdicts", positions: NDArray[np.intp]) -> None:
        """Apply the rejections of a second run on some of the passing nodes; `positions` are those nodes here."""
        for settled in later.settled():
            self._settled.append(settled._replace(positions=positions[settled.positions]))
        self.passing[positions] = later.passing
        self._left = int(np.count_nonzero(self.passing))

    def keep(self, judged: NDArray[np.bool_]) -> None:
        """Forget the verdicts on all nodes that are not marked, as if they had not been asked about."""
        kept = [
            settled._replace(positions=settled.positions[on], keys=settled.keys[on])
            for settled in self._settled
            if (on := judged[settled.positions]).any()
        ]
        self._settled = kept
        self.passing &= judged
        self._left = int(np.count_nonzero(self.passing))

    def refuse(self, plugin: str, positions: NDArray[np.intp], statuses: Sequence[Status | None]) -> None:
        """Reject passing nodes, each with its status; those with None as if they had not been asked about."""
        numbers = {status: number for number, status in enumerate(dict.fromkeys(statuses), 1)}
        keys = np.array([numbers[status] for status in statuses], np.int64)
        distinct = list(numbers)

        def status_of(key: int) -> Status:
            status = distinct[key - 1]
            assert status is not None
            return status

        rejected = keys != numbers.get(None, 0)
        if rejected.any():
            self._settled.append(Settled(plugin, Rejections(keys, status_of), positions[rejected], keys[rejected], {}))
        self.passing[positions] = False
        self._left = int(np.count_nonzero(self.passing))

    def leave_out(self, rejections: Rejections) -> None:
        """Apply PreFilter's choice of nodes, before any plugin's verdict."""
        self._left_out = rejections
        self.reject("", rejections)

    def bring_back(self, position: int) -> bool:
        """Return whether PreFilter left out a node; then the node has no status any more."""
        for index, settled in enumerate(self._settled):
            others = settled.positions != position
            if settled.rejections is self._left_out and not others.all():
                left = settled._replace(positions=settled.positions[others], keys=settled.keys[others])
                self._settled[index : index + 1] = [left] if others.any() else []
                return True
        return False

    def groups(self) -> Iterator[tuple[Status, NDArray[np.intp]]]:
        """Iterate over the distinct statuses of rejected nodes, each with the positions that have it.

        Raises CycleError if a plugin fails to say why it rejected a node.
        """
        for settled in self._settled:
            keys = settled.keys
            first = int(keys[0])
            has_first = keys == first
            if has_first.all():  # one reason for all nodes, as most plugins have
                yield settled.status_of(first), settled.positions
                continue
            for key in _distinct(keys):
                yield settled.status_of(key), settled.positions[keys == key]

    def rejected_with(self, code: Code) -> NDArray[np.bool_]:
        """Return which nodes were rejected with a code, one entry per node of the view."""
        rejected = np.zeros(len(self.view), np.bool_)
        for status, positions in self.groups():
            if status.code == code:
                rejected[positions] = True
        return rejected

    def failed(self) -> NDArray[np.bool_]:
        """Return on which nodes a plugin failed, as opposed to rejecting the node; one entry per node of the view."""
        failed = np.zeros(len(self.view), np.bool_)
        if any(settled.rejections.may_be_errors for settled in self._settled):
            for status, positions in self.groups():
                failed[positions] = not status.is_rejection
        return failed

    def first_error(self) -> Status | None:
        """Return the status of the first node on which a plugin failed, as opposed to rejecting the node."""
        if not any(settled.rejections.may_be_errors for settled in self._settled):
            return None
        errors = [(positions[0], status) for status, positions in self.groups() if not status.is_rejection]
        return min(errors, key=lambda error: int(error[0]))[1] if errors else None

    def rejecting_plugins(self) -> set[str]:
        """Names of the plugins that were the first to reject at least one node."""
        return {settled.plugin for settled in self._settled}

    def _settle(
        self, plugin: str, rejections: Rejections, judged: NDArray[np.intp], positions: NDArray[np.intp]
    ) -> bool:
        """Reject nodes at some positions, whose keys are those at `judged`; returns whether any of them passed."""
        newly = self.passing[positions]
        count = int(np.count_nonzero(newly))
        if not count:
            return False
        if count < len(judged):
            judged, positions = judged[newly], positions[newly]
        self._settled.append(Settled(plugin, rejections, positions, rejections.keys[judged], {}))
        self.passing[positions] = False
        self._left -= count
        return True

    def _narrow(self) -> None:
        # Judging all nodes costs less than copying columns, until most of them are rejected.
        if 0 < 4 * self._left <= len(self._remaining):
            self._positions = np.flatnonzero(self.passing)
            self._remaining = self.view.at(self._positions)


def _distinct(keys: NDArray[np.int64]) -> list[int]:
    # np.unique imports half of NumPy when it is first called.
    ordered = np.sort(keys)
    distinct: list[int] = ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))].tolist()
    return distinct
