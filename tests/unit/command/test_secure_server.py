"""What stops the scheduler's HTTPS at its start. tests/e2e/scheduler/test_secure_serving.py has the rest."""

from pathlib import Path

import pytest

from extender_service.command import cli

OPTIONS = ("--client-ca-file", "--requestheader-client-ca-file")
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
"""


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        (b"", "has no PEM certificate"),
        (b"\xff\xfe", "has no PEM certificate"),
        (b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "has no PEM certificate"),
    ],
)
def test_a_file_of_authorities_that_vouches_for_nobody_is_refused(
    option: str, content: bytes | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authorities, kubeconfig = tmp_path / "authorities.pem", tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    if content is not None:
        authorities.write_bytes(content)
    arguments = [f"--kubeconfig={kubeconfig}", "--secure-port=10259", f"{option}={authorities}"]
    assert cli.main(["schedule", *arguments]) != 0
    error = capsys.readouterr().err
    assert option in error
    assert problem in error
