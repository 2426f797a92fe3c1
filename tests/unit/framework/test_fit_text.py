from extender_service.framework.fit_text import counted_reasons, fit_text


def test_reasons_are_counted_and_sorted_as_kube_scheduler_words_them() -> None:
    reasons = {
        "node(s) had untolerated taint {dedicated: gpu}": 3,
        "Insufficient memory": 1,
        "Insufficient cpu": 10,
        "Too many pods": 2,
    }
    assert fit_text(14, counted_reasons(reasons)) == (
        "0/14 nodes are available: 1 Insufficient memory, 10 Insufficient cpu, 2 Too many pods, "
        "3 node(s) had untolerated taint {dedicated: gpu}."
    )


def test_a_text_without_a_reason_ends_as_kube_scheduler_s_does() -> None:
    assert fit_text(2, counted_reasons({})) == "0/2 nodes are available:"


def test_a_decision_that_some_nodes_passed_is_worded_alike() -> None:
    assert fit_text(3, "1 Insufficient cpu", passed=2) == "2/3 nodes are available: 1 Insufficient cpu."
