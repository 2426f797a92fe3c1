"""KubeSchedulerConfiguration v1: types, defaults, validation, loading and printing."""
