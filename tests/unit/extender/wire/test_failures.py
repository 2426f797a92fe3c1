import json

import pytest

from extender_service.extender.wire.failures import VERBS, failure


@pytest.mark.parametrize("verb", VERBS)
def test_kube_scheduler_hears_of_an_error_in_a_field_or_else_in_the_status(verb: str) -> None:
    status, body = failure(verb, "no cluster", 503)
    answer = json.loads(body)
    assert answer["Error"] == "no cluster"
    assert status == (200 if verb in ("filter", "bind") else 503)
