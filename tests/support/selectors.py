"""Random labels and selectors over a few keys and values, so that they often match."""

from hypothesis import strategies as st

from extender_service.kube.parsing.selectors import parse_label_selector
from extender_service.kube.types.core import LabelSelector, SelectorRequirement

KEYS = ("app", "tier", "pod")
VALUES = ("a", "b", "c", "")
NAMESPACES = ("shop", "bank", "farm")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
_values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple)
_requirements = st.one_of(
    st.builds(SelectorRequirement, st.sampled_from(KEYS), st.sampled_from(["In", "NotIn"]), _values),
    st.builds(SelectorRequirement, st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"])),
)
selectors = st.one_of(
    st.none(),
    st.builds(
        LabelSelector,
        st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2),
        st.lists(_requirements, max_size=2).map(tuple),
    ),
).map(parse_label_selector)
namespaces = st.sampled_from(NAMESPACES)
namespace_sets = st.none() | st.frozensets(namespaces, max_size=2)
