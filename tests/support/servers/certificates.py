"""Certificates for tests: the service's, its callers', those of strangers; and folders as the kubelet mounts them."""

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

_SEVERAL_DAYS = timedelta(days=3)


def issue(ca: trustme.CA, *names: str, common_name: str | None = None, expired: bool = False) -> trustme.LeafCert:
    """A certificate with these names as its SANs, for servers and clients."""
    now = datetime.now(UTC)
    if not expired:
        return ca.issue_cert(*names, common_name=common_name)
    return ca.issue_cert(
        *names, common_name=common_name, not_before=now - 2 * _SEVERAL_DAYS, not_after=now - _SEVERAL_DAYS
    )


def pem_files(shown: trustme.LeafCert, *trusted: trustme.CA) -> dict[str, bytes]:
    """A certificate, its key and the trusted authorities as in a Secret of the type kubernetes.io/tls."""
    return {
        "tls.crt": b"".join(part.bytes() for part in shown.cert_chain_pems),
        "tls.key": shown.private_key_pem.bytes(),
        "ca.crt": b"".join(ca.cert_pem.bytes() for ca in trusted),
    }


def mount(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder as the kubelet mounts a Secret: the files are links through one link, which is exchanged."""
    folder.mkdir(exist_ok=True)
    number = len([*folder.glob("..content*")])
    content = folder / f"..content-{number}"
    content.mkdir()
    for name, data in files.items():
        (content / name).write_bytes(data)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    (folder / "..data_tmp").symlink_to(content.name)
    (folder / "..data_tmp").replace(folder / "..data")


def overwrite(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write plain files, one after the other, each in its place."""
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def rename_over(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write plain files, each beside its place, and then rename it over the old one."""
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / "new").write_bytes(data)
        (folder / "new").replace(folder / name)


def client_context(trusted: trustme.CA, shown: trustme.LeafCert | None = None) -> ssl.SSLContext:
    """A client that trusts an authority and shows a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusted.configure_trust(context)
    if shown is not None:
        shown.configure_cert(context)
    return context
