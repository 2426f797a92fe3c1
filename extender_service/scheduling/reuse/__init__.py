"""Reuse of earlier decisions for pods with the same signature, as kube-scheduler's opportunistic batching."""
