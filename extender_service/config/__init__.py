"""KubeSchedulerConfiguration v1: types, defaults, checks, loading and printing; feature gates; rules by release."""
