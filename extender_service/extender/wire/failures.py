"""How the answers of the verbs report an error to kube-scheduler."""

import msgspec

from extender_service.kube.types.extender_api import ErrorResult, ExtenderBindingResult, ExtenderFilterResult

VERBS = ("filter", "prioritize", "preempt", "bind")

_encode = msgspec.json.Encoder().encode


def failure(verb: str, error: str) -> tuple[int, bytes]:
    """Return the status and the body of an answer with this error."""
    if verb == "filter":
        return 200, _encode(ExtenderFilterResult(error=error))
    if verb == "bind":
        return 200, _encode(ExtenderBindingResult(error))
    # The other two answers have no field for an error; kube-scheduler reads only the status.
    return 400, _encode(ErrorResult(error))
