from pathlib import Path

import pytest

from extender_service.command.serving_certificate import certificate_and_key, serving_certificates
from extender_service.command.start_error import StartError
from extender_service.seams import THIS_MACHINE
from extender_service.serving.refusals import Refusals
from extender_service.serving.server_tls import TLSFiles

CERTIFICATE, KEY = Path("tls.crt"), Path("tls.key")


def test_a_certificate_needs_its_key_and_a_key_its_certificate() -> None:
    assert certificate_and_key(CERTIFICATE, KEY) == (CERTIFICATE, KEY)
    assert certificate_and_key(None, None) is None
    for given in ((CERTIFICATE, None), (None, KEY)):
        with pytest.raises(StartError, match=r"^--tls-cert-file, --tls-private-key-file: give both, or neither$"):
            certificate_and_key(*given)


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    files = TLSFiles(tmp_path / "none", tmp_path / "none")
    with pytest.raises(StartError, match=f"^--tls-cert-file: {tmp_path / 'none'}: No such file or directory$"):
        serving_certificates(files, Refusals(), THIS_MACHINE)
