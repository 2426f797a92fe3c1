"""How many nodes take a pod, and why the others do not, in kube-scheduler's words (FitError in framework/types.go)."""

from collections.abc import Mapping


def fit_text(nodes: int, why: str, passed: int = 0) -> str:
    """Return that `passed` of so many nodes take a pod, and why the others do not, if there is a reason.

    kube-scheduler has a text only where no node passes.
    """
    text = f"{passed}/{nodes} nodes are available:"
    return f"{text} {why}." if why else text


def counted_reasons(reasons: Mapping[str, int]) -> str:
    """Return reasons as one text, each with the number of nodes that have it."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
