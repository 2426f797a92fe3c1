"""Kubeconfig files for the users that a test plays."""

import base64
from collections.abc import Mapping
from pathlib import Path

import trustme
import yaml


def token_user(token: str) -> dict[str, str]:
    """A user who shows a bearer token."""
    return {"token": token}


def certificate_user(ca: trustme.CA, name: str, group: str | None) -> dict[str, str]:
    """A user who shows a client certificate. Kubernetes reads the name from its CN and the group from its O."""
    certificate = ca.issue_cert(f"{name}@users.test", common_name=name, organization_name=group)
    chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
    return {
        "client-certificate-data": base64.b64encode(chain).decode(),
        "client-key-data": base64.b64encode(certificate.private_key_pem.bytes()).decode(),
    }


def write(path: Path, server: str, ca: trustme.CA, user: Mapping[str, str]) -> Path:
    """Write a kubeconfig of one context and return its path."""
    ca_data = base64.b64encode(ca.cert_pem.bytes()).decode()
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": ca_data}}],
        "users": [{"name": "test", "user": dict(user)}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.write_text(yaml.safe_dump(kubeconfig))
    return path
