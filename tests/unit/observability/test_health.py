import asyncio
from collections.abc import AsyncIterator

from extender_service.kube.connection.event_stream import EventStream
from extender_service.kube.resources.api_resources import NODES
from extender_service.kube.watching.watch_state import WatchState
from extender_service.observability.health import (
    Check,
    Health,
    first_problem,
    release_check,
    run_checks,
    trust_check,
    watch_checks,
)


def checks(state: WatchState, now: float = 100.0) -> dict[str, Check]:
    return watch_checks({"nodes": state}, stale_limit_seconds=30, clock=lambda: now)


def problem(state: WatchState, now: float = 100.0) -> str | None:
    return checks(state, now)["watch-nodes"]()


def test_a_watch_that_is_synced_and_healthy_has_no_problem() -> None:
    assert problem(WatchState(heard_at=100.0, synced=True)) is None


def test_a_watch_is_no_good_until_its_list_is_applied() -> None:
    assert problem(WatchState(heard_at=99.0)) == "not synced yet"
    assert problem(WatchState(heard_at=99.0, last_error="401 Unauthorized")) == "not synced yet: 401 Unauthorized"


def test_a_watch_may_be_lost_for_as_long_as_the_limit() -> None:
    state = WatchState(heard_at=100.0, synced=True, last_error="connection refused")
    assert problem(state, now=130.0) is None
    assert problem(state, now=131.0) == "stale for 31 s: connection refused"


def test_a_watch_is_fine_again_once_the_server_is_heard_of_again() -> None:
    state = WatchState(heard_at=10.0, synced=True)
    assert problem(state) == "stale for 90 s"
    state.heard_at = 100.0
    assert problem(state) is None


def test_the_release_of_kubernetes_that_is_followed_is_shown() -> None:
    report = run_checks("readyz", Health(release_check("1.34")).readiness)
    assert report.passed
    assert "[+]emulated-version-1.34 ok" in report.text.splitlines()


def test_fields_that_are_not_judged_are_shown_once_some_pod_has_them() -> None:
    found: dict[str, int] = {}
    health = Health({}, not_judged=found.keys)
    before = run_checks("readyz", health.readiness)
    found["spec.resourceClaims"] = 1
    after = run_checks("readyz", health.readiness)
    assert "not-judged" not in before.text
    assert after.passed
    assert "[+]not-judged-spec.resourceClaims ok" in after.text.splitlines()


def test_an_open_watch_is_worth_what_it_has_told() -> None:
    async def brings_nothing() -> AsyncIterator[bytes]:
        await asyncio.sleep(0)
        yield b""

    watch = EventStream(brings_nothing(), NODES.frame_decoder)
    state = WatchState(heard_at=60.0, synced=True, watch=watch)
    assert problem(state) == "stale for 40 s"
    watch.current_at = 99.0
    assert problem(state) is None


def test_calls_are_told_the_first_problem_when_there_is_one() -> None:
    now = 100.0
    nodes, pods = WatchState(heard_at=100.0, synced=True), WatchState(heard_at=90.0)
    check = trust_check({"nodes": nodes, "pods": pods}, stale_limit_seconds=30, clock=lambda: now)
    assert check() == "watch-pods not synced yet"
    pods.synced = True
    assert check() is None
    now = 120.0
    assert check() is None
    now = 121.0
    assert check() == "watch-pods stale for 31 s"
    pods.heard_at = 121.0
    assert check() is None
    now = 131.0
    assert check() == "watch-nodes stale for 31 s"


def test_an_error_of_several_lines_stays_in_its_line() -> None:
    state = WatchState(heard_at=0.0, last_error="502 <html>\r\n[+]watch-nodes ok\n</html>")
    assert problem(state) == "not synced yet: 502 <html> [+]watch-nodes ok </html>"


def test_all_checks_are_listed_with_their_outcome() -> None:
    health = Health(checks(WatchState(heard_at=100.0, synced=True)))
    assert run_checks("readyz", health.readiness)[:2] == (
        True,
        "[+]ping ok\n[+]watch-nodes ok\n[+]shutdown ok\nreadyz check passed\n",
    )


def test_one_failed_check_fails_the_report() -> None:
    health = Health(checks(WatchState(heard_at=100.0)))
    assert run_checks("readyz", health.readiness)[:2] == (
        False,
        "[+]ping ok\n[-]watch-nodes failed: not synced yet\n[+]shutdown ok\nreadyz check failed\n",
    )


def test_an_excluded_check_does_not_count() -> None:
    health = Health(checks(WatchState(heard_at=100.0)))
    assert run_checks("readyz", health.readiness, ["watch-nodes"])[:2] == (
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
    assert run_checks("readyz", health.readiness)[:2] == (
        False,
        "[+]ping ok\n[-]shutdown failed: process is shutting down\nreadyz check failed\n",
    )


def test_a_cluster_without_watches_is_ready() -> None:
    assert run_checks("readyz", Health(watch_checks({})).readiness).passed


def test_the_first_failing_check_is_told_with_its_name() -> None:
    assert first_problem({"a": lambda: None, "b": lambda: "not synced yet", "c": lambda: "late"}) == "b not synced yet"
    assert first_problem({"a": lambda: None}) is None
