from bench.scheduler.choice import Choice


def test_all_clusters_are_compared_unless_one_is_chosen() -> None:
    assert [*Choice().clusters(quick=False)] == [("real", 1000), ("real", 5000), ("stub", 5000), ("stub", 15000)]
    assert [*Choice(server="stub").clusters(quick=False)] == [("stub", 5000), ("stub", 15000)]
    assert [*Choice(nodes=700).clusters(quick=False)] == [("real", 700), ("stub", 700)]


def test_a_quick_run_is_small_unless_sizes_are_chosen() -> None:
    assert [*Choice().clusters(quick=True)] == [("real", 200), ("stub", 200)]
    assert [*Choice(server="stub", nodes=5000).clusters(quick=True)] == [("stub", 5000)]
    assert (Choice().pod_count(quick=True), Choice(pods=7).pod_count(quick=True)) == (300, 7)
    assert Choice().pod_count(quick=False) == 5000
