"""How the answers of the verbs report an error to kube-scheduler."""

import msgspec

from extender_service.framework.guard import CycleError
from extender_service.kube.types.extender_api import ErrorResult, ExtenderBindingResult, ExtenderFilterResult

VERBS = ("filter", "prioritize", "preempt", "bind")

_encode = msgspec.json.Encoder().encode


class WrongCallError(CycleError):
    """The caller is configured to make a call that this service does not answer."""


def failure(verb: str, error: str, status: int) -> tuple[int, bytes]:
    """Return the status and the body of an answer with this error; `status` is for answers without a field for it."""
    if verb == "filter":
        return 200, _encode(ExtenderFilterResult(error=error))
    if verb == "bind":
        return 200, _encode(ExtenderBindingResult(error))
    # kube-scheduler reads only the status of the other two, and takes all but 200 for an error.
    return status, _encode(ErrorResult(error))
