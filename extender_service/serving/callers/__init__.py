"""Who calls, and whether they may: as kube-scheduler asks the API server about callers of its HTTPS."""
