"""kube-scheduler's decision making, served over the scheduler-extender HTTP API."""
