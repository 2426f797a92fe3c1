"""Fewer nodes than in kube-scheduler are enough where a scheduler looks at some of them only.

Otherwise it looks at a hundred feasible nodes in any case, which is more than most worlds have.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final
from unittest import mock

from extender_service.scheduler import node_sampling

_SETTING: Final = "narrow-sampling"
_LEAST_NODES: Final = 3


@contextmanager
def few_are_enough(wanted: Collection[str]) -> Iterator[None]:
    """Let three be enough until the context ends, if that is wanted."""
    least = _LEAST_NODES if _SETTING in wanted else node_sampling._LEAST_NODES
    with mock.patch.object(node_sampling, "_LEAST_NODES", least):
        yield
