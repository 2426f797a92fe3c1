import numpy as np

from extender_service.framework.status import Code, Status, unresolvable
from extender_service.plugins.volume_binding.verdicts import (
    CONFLICT,
    NO_SPACE,
    NO_VOLUME,
    NOTHING_TO_BIND,
    VolumeVerdicts,
)


def mask(*marked: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([position in marked for position in range(4)])


def test_a_node_has_all_its_reasons_in_order_or_one_error() -> None:
    verdicts = VolumeVerdicts(4)
    verdicts.add(NO_VOLUME, mask(0))
    verdicts.add(NOTHING_TO_BIND, mask(0, 1))
    verdicts.add(CONFLICT, mask(0, 3))
    verdicts.add(NO_SPACE, mask())
    verdicts.fail("first", mask(3))
    verdicts.fail("second", mask(1))
    assert verdicts.failed.tolist() == [False, True, False, True]
    assert verdicts.passing.tolist() == [False, False, True, False]
    rejections = verdicts.rejections()
    assert rejections is not None
    assert rejections.may_be_errors
    assert [rejections.status_of(int(key)) if key else None for key in rejections.keys] == [
        unresolvable(
            "node(s) had volume node affinity conflict",
            "node(s) didn't find available persistent volumes to bind",
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        ),
        Status(Code.ERROR, ("second",)),
        None,
        Status(Code.ERROR, ("first",)),
    ]


def test_nothing_found_is_no_rejection() -> None:
    verdicts = VolumeVerdicts(4)
    verdicts.add(NO_SPACE, mask())
    assert verdicts.rejections() is None
    verdicts.add(NO_SPACE, mask(2))
    rejections = verdicts.rejections()
    assert rejections is not None
    assert not rejections.may_be_errors
    assert rejections.status_of(int(rejections.keys[2])) == unresolvable("node(s) did not have enough free storage")
