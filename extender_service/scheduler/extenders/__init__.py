"""Other extenders, which this program calls as kube-scheduler does (extender.go)."""
