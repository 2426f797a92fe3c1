"""The certificate of a program that serves HTTPS, from options that `serve` and `schedule` have."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from extender_service.command.start_error import StartError
from extender_service.seams import Machine
from extender_service.serving.refusals import Refusals
from extender_service.serving.server_tls import ServingCertificates, TLSError, TLSFiles

MINIMUM_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


def certificate_and_key(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    """Return the two files; None if neither is given. Raises StartError if only one is."""
    if certificate is not None and key is not None:
        return certificate, key
    if certificate is None and key is None:
        return None
    raise StartError("--tls-cert-file, --tls-private-key-file: give both, or neither")


def serving_certificates(files: TLSFiles, refused: Refusals, machine: Machine) -> ServingCertificates:
    """Read the files. Raises StartError."""
    try:
        return ServingCertificates(files, refused, wall_clock=machine.wall_clock)
    except TLSError as error:
        raise StartError(str(error)) from error
