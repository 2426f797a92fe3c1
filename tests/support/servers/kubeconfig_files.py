"""kubeconfig files for tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(
    path: Path, *, cluster: Mapping[str, Any], user: Mapping[str, Any] | None = None, name: str = "test"
) -> Path:
    """Write a file whose current context, cluster and user all have this name."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user or {})}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path
