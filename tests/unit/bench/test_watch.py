"""What loading a cluster is compared with."""

from bench.watch import Load, loading

KUBE_SCHEDULER = {"sync_s": 20.0, "cpu_s": 24.0, "rss_MiB": 3600.0, "rss_idle_MiB": 1200.0}


def test_memory_is_judged_when_kube_scheduler_has_collected_its_garbage() -> None:
    rows = {row["figure"]: row for row in loading([Load(5.0, 3.0, 225.0, 240.0)], [Load.of_peer(KUBE_SCHEDULER)])}

    loaded, idle = rows["resident mib loaded"], rows["resident mib idle"]
    assert (loaded["service"], loaded["peer"], loaded["times less"], loaded["target"]) == (225.0, 3600.0, 16.0, None)
    assert (idle["service"], idle["peer"], idle["times less"], idle["target"]) == (240.0, 1200.0, 5.0, ">= 5")
