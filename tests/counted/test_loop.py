"""What the loop of `schedule` exchanges with the API server for each pod."""

from tests.counted.loop import loops


def test_a_pod_takes_two_requests_and_no_answer_to_them_is_decoded() -> None:
    for loop in loops(100):
        assert loop.requests == 2  # the binding and its event
        assert loop.sent_bytes < 1300
        # A line of the watch is read for the kind of the event, then for the pod. One on no node is glanced at first.
        assert loop.decoded_bytes < 2.6 * loop.seen_bytes
