"""The verbs of the extender API, each as phases over the engine."""
