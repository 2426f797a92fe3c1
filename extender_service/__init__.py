"""kube-scheduler's scheduling decisions in Python: as an extender over HTTP, and as a whole scheduler."""
