"""What the scheduler counts and times, under kube-scheduler's names (pkg/scheduler/metrics)."""
