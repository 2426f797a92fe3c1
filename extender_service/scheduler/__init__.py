"""The whole scheduler: from a pending pod of the watch to a bound one, in kube-scheduler's place or beside it."""
