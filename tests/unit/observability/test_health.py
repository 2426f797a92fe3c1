from extender_service.kube.reflector import WatchState
from extender_service.observability.health import Check, Health, first_problem, run_checks, watch_checks


def checks(state: WatchState, now: float = 100.0) -> dict[str, Check]:
    return watch_checks({"nodes": state}, stale_limit_seconds=30, clock=lambda: now)


def problem(state: WatchState, now: float = 100.0) -> str | None:
    return checks(state, now)["watch-nodes"]()


def test_a_watch_that_is_synced_and_healthy_has_no_problem() -> None:
    assert problem(WatchState(stale_since=None, synced=True)) is None


def test_a_watch_is_no_good_until_its_list_is_applied() -> None:
    assert problem(WatchState(stale_since=99.0)) == "not synced yet"
    assert problem(WatchState(stale_since=99.0, last_error="401 Unauthorized")) == "not synced yet: 401 Unauthorized"


def test_a_watch_may_be_lost_for_as_long_as_the_limit() -> None:
    state = WatchState(stale_since=100.0, synced=True, last_error="connection refused")
    assert problem(state, now=130.0) is None
    assert problem(state, now=131.0) == "stale for 31 s: connection refused"


def test_a_watch_is_fine_again_once_it_is_open_again() -> None:
    state = WatchState(stale_since=10.0, synced=True)
    assert problem(state) == "stale for 90 s"
    state.stale_since = None
    assert problem(state) is None


def test_an_error_of_several_lines_stays_in_its_line() -> None:
    state = WatchState(stale_since=0.0, last_error="502 <html>\r\n[+]watch-nodes ok\n</html>")
    assert problem(state) == "not synced yet: 502 <html> [+]watch-nodes ok </html>"


def test_all_checks_are_listed_with_their_outcome() -> None:
    health = Health(checks(WatchState(stale_since=None, synced=True)))
    assert run_checks("readyz", health.readiness) == (
        True,
        "[+]ping ok\n[+]watch-nodes ok\n[+]shutdown ok\nreadyz check passed\n",
    )


def test_one_failed_check_fails_the_report() -> None:
    health = Health(checks(WatchState(stale_since=None)))
    assert run_checks("readyz", health.readiness) == (
        False,
        "[+]ping ok\n[-]watch-nodes failed: not synced yet\n[+]shutdown ok\nreadyz check failed\n",
    )


def test_an_excluded_check_does_not_count() -> None:
    health = Health(checks(WatchState(stale_since=None)))
    assert run_checks("readyz", health.readiness, ["watch-nodes"]) == (
        True,
        "[+]ping ok\n[+]watch-nodes excluded: ok\n[+]shutdown ok\nreadyz check passed\n",
    )


def test_excluding_what_does_not_exist_is_told() -> None:
    assert run_checks("livez", Health({}).liveness, ["etcd", "a\nb", "ping"]).text == (
        "[+]ping excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "a\\nb","etcd"\n'
        "livez check passed\n"
    )


def test_a_process_that_drains_is_alive_but_not_ready() -> None:
    health = Health({})
    health.drain()
    assert run_checks("livez", health.liveness).passed
    assert run_checks("readyz", health.readiness) == (
        False,
        "[+]ping ok\n[-]shutdown failed: process is shutting down\nreadyz check failed\n",
    )


def test_a_cluster_without_watches_is_ready() -> None:
    assert run_checks("readyz", Health(watch_checks({})).readiness).passed


def test_the_first_failing_check_is_told_with_its_name() -> None:
    assert first_problem({"a": lambda: None, "b": lambda: "not synced yet", "c": lambda: "late"}) == "b not synced yet"
    assert first_problem({"a": lambda: None}) is None
