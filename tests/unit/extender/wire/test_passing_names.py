import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender_service.extender.wire.passing_names import PassingNamesEncoder
from extender_service.kube.types.extender_api import ExtenderFilterResult

_AWKWARD = st.text(st.sampled_from('",\\[]:NodeNames\n/é')) | st.text()


@given(st.lists(st.tuples(_AWKWARD, st.booleans(), st.booleans())), st.dictionaries(_AWKWARD, _AWKWARD))
def test_what_is_written_has_the_nodes_that_pass(nodes: list[tuple[str, bool, bool]], reasons: dict[str, str]) -> None:
    names = [name for name, _, _ in nodes]
    encoder = PassingNamesEncoder()
    for passes in ([first for _, first, _ in nodes], [second for _, _, second in nodes], [True] * len(nodes)):
        result = ExtenderFilterResult(node_names=[], failed_nodes=reasons)
        if not any(passes):
            continue
        written = encoder.encode(result, names, np.array(passes))
        passing = [name for name, fits in zip(names, passes, strict=True) if fits]
        assert written == msgspec.json.encode(msgspec.structs.replace(result, node_names=passing))


def test_another_list_is_not_taken_for_the_one_before() -> None:
    encoder = PassingNamesEncoder()
    for names in (["a", "b"], ["c", "d"]):
        written = encoder.encode(ExtenderFilterResult(node_names=[]), names, np.array([False, True]))
        assert msgspec.json.decode(written)["NodeNames"] == names[1:]
