"""The files of the self-signed certificate with which the scheduler serves HTTPS if it is given none."""

import os
import tempfile
from pathlib import Path

from extender_service.command.start_error import StartError
from extender_service.seams import WallClock
from extender_service.serving.self_signed import self_signed

_PAIR_NAME = "kube-scheduler"


def self_signed_files(folder: Path | None, wall_clock: WallClock) -> tuple[Path, Path]:
    """Return the files of a certificate and its key: those of the folder, which are made where they do not exist.

    Without a folder, they are in memory. Raises StartError.
    """
    try:
        return _in_memory(wall_clock) if folder is None else _in_folder(folder, wall_clock)
    except OSError as error:
        # A failed write has no file name.
        raise StartError(f"--cert-dir: {folder or error.filename}: {error.strerror}") from error


def _in_folder(folder: Path, wall_clock: WallClock) -> tuple[Path, Path]:
    certificate, key = folder / f"{_PAIR_NAME}.crt", folder / f"{_PAIR_NAME}.key"
    if certificate.exists() and key.exists():
        return certificate, key
    certificate_pem, key_pem = _made(wall_clock)
    folder.mkdir(parents=True, exist_ok=True)
    # Both are on the disk before either has its name, and no other certificate is beside the key meanwhile: each later
    # start would fail with half a pair.
    with tempfile.TemporaryDirectory(prefix=f".{_PAIR_NAME}-", dir=folder) as whole:
        new_certificate, new_key = Path(whole, certificate.name), Path(whole, key.name)
        _write(new_certificate, certificate_pem, 0o644)
        _write(new_key, key_pem, 0o600)
        certificate.unlink(missing_ok=True)
        new_key.replace(key)
        new_certificate.replace(certificate)
    return certificate, key


def _write(path: Path, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _in_memory(wall_clock: WallClock) -> tuple[Path, Path]:
    certificate_pem, key_pem = _made(wall_clock)
    return _file_in_memory(certificate_pem), _file_in_memory(key_pem)


def _made(wall_clock: WallClock) -> tuple[bytes, bytes]:
    pair = self_signed("localhost", "127.0.0.1", random_bytes=os.urandom, now_seconds=wall_clock())
    return pair.certificate, pair.key


def _file_in_memory(content: bytes) -> Path:
    """Return a file with this content, which exists as long as the process; no folder need be writable for it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(_PAIR_NAME)
        os.write(descriptor, content)
        return Path(f"/proc/self/fd/{descriptor}")
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(content)
    return Path(file.name)
