"""The engine: a question about a pod, the decision, the placement and the binding. No HTTP, no queue, no mode."""
