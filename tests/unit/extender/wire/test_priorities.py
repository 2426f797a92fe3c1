import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender_service.extender.wire.priorities import Priorities, PrioritiesEncoder
from extender_service.kube.types.extender_api import HostPriority


@given(st.lists(st.tuples(st.text(), st.integers(0, 2**62))))
def test_what_is_written_is_a_list_of_host_priorities(nodes: list[tuple[str, int]]) -> None:
    names = [name for name, _ in nodes]
    encoder = PrioritiesEncoder()
    for change in (0, 1):
        scores = [score + change for _, score in nodes]
        written = encoder.encode(Priorities(names, np.array(scores, np.int64)))
        expected = [HostPriority(name, score) for name, score in zip(names, scores, strict=True)]
        assert msgspec.json.decode(written, type=list[HostPriority]) == expected
