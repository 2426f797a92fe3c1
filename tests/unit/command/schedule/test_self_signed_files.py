import errno
import os
import ssl
import stat
import time
from pathlib import Path

import pytest

from extender_service.command.schedule.self_signed_files import self_signed_files
from extender_service.command.start_error import StartError


def load(certificate: Path, key: Path) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)


def test_without_a_folder_they_are_in_memory() -> None:
    load(*self_signed_files(None, time.time))


def test_a_folder_keeps_them_for_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    certificate, key = self_signed_files(folder, time.time)
    load(certificate, key)
    assert (certificate, key) == (folder / "kube-scheduler.crt", folder / "kube-scheduler.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    made = certificate.read_bytes()
    assert self_signed_files(folder, time.time) == (certificate, key)
    assert certificate.read_bytes() == made


def test_a_full_disk_leaves_no_part_of_a_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def fill_up(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill_up)
    with pytest.raises(StartError, match=f"^--cert-dir: {tmp_path}: No space left on device$"):
        self_signed_files(tmp_path, time.time)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    load(*self_signed_files(tmp_path, time.time))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=rf"^--cert-dir: {tmp_path / 'file'}.*: "):
        self_signed_files(tmp_path / "file" / "folder", time.time)
