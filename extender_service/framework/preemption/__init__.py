"""Which pods to evict so that another one fits: candidates, and the dry run."""
