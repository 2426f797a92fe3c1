import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import Credentials, load_credentials
from tests.support.servers.kubeconfig_files import write_kubeconfig

PLUGIN = {"command": "login", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("POD")
    trustme.CA().cert_pem.write_to_path(folder / "ca.crt")
    return folder


def authorization(credentials: Credentials) -> str:
    return asyncio.run(credentials.identity.get()).authorization


def test_an_explicit_kubeconfig_comes_first(
    tmp_path: Path, service_account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    path = write_kubeconfig(tmp_path / "config", cluster={"server": "https://c/prefix/"}, user={"token": "T"})
    credentials = load_credentials(path, service_account=service_account)
    assert credentials.server == "https://c/prefix"
    assert authorization(credentials) == "Bearer T"


def test_master_replaces_the_server_and_its_name_but_not_the_identity(tmp_path: Path) -> None:
    cluster = {"server": "https://c", "tls-server-name": "name", "proxy-url": "http://proxy"}
    path = write_kubeconfig(tmp_path / "config", cluster=cluster, user={"token": "T"})
    credentials = load_credentials(path, "https://10.0.0.1:6443")
    assert (credentials.server, credentials.trust.current().server_name) == ("https://10.0.0.1:6443", "")
    assert authorization(credentials) == "Bearer T"


def test_master_alone_is_used_without_an_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "KUBECONFIG", str(write_kubeconfig(tmp_path / "config", cluster={"server": "https://c"}, user={"token": "T"}))
    )
    credentials = load_credentials(master="http://127.0.0.1:8001")
    assert credentials.server == "http://127.0.0.1:8001"
    assert authorization(credentials) == ""


def test_the_systems_certificates_are_not_loaded_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_: ssl.SSLContext) -> None:
        raise AssertionError("they take 40 ms, and nothing in them can be wrong")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", load)
    assert load_credentials(master="http://10.0.0.1:8080").server == "http://10.0.0.1:8080"


@pytest.mark.parametrize(
    ("host", "server"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_in_a_pod_the_service_account_comes_before_kubeconfig_files(
    tmp_path: Path, service_account: Path, monkeypatch: pytest.MonkeyPatch, host: str, server: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", cluster={"server": "https://c"})))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    credentials = load_credentials(like_kubectl=True, service_account=service_account)
    assert credentials.server == server
    assert credentials.trust.current().ca_pem == (service_account / "ca.crt").read_bytes()
    assert authorization(credentials) == "Bearer POD"


def test_kubeconfig_files_of_the_environment_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write_kubeconfig(tmp_path / "one", cluster={"server": "https://one"}, user={"token": "1"})
    two = write_kubeconfig(tmp_path / "two", cluster={"server": "https://two"}, user={"token": "2"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}::{two}:{one}")
    credentials = load_credentials(like_kubectl=True, service_account=tmp_path)
    assert (credentials.server, authorization(credentials)) == ("https://two", "Bearer 2")


def test_the_home_folder_comes_last(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "home/.kube/config", cluster={"server": "https://home"})
    assert load_credentials(like_kubectl=True, service_account=tmp_path).server == "https://home"


def test_the_users_files_count_only_like_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write_kubeconfig(tmp_path / "home/.kube/config", cluster={"server": "https://home"})
    monkeypatch.setenv("KUBECONFIG", str(home))
    with pytest.raises(CredentialsError) as error:
        load_credentials(service_account=tmp_path)
    assert str(error.value) == (
        f"no API server is configured: there is no service account in {tmp_path}, and KUBECONFIG and ~/.kube/config "
        "do not count; give --kubeconfig FILE or --master URL or, with --config, set its clientConnection.kubeconfig"
    )


def test_without_any_source_the_error_names_them_all(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError) as error:
        load_credentials(like_kubectl=True, service_account=tmp_path / "serviceaccount")
    message = str(error.value)
    for part in (str(tmp_path / "serviceaccount"), "KUBECONFIG", str(tmp_path / "home/.kube/config"), "--kubeconfig"):
        assert part in message


def test_no_secret_is_sent_without_tls(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", cluster={"server": "http://c"}, user={"token": "T", "as": "anna"})
    credentials = load_credentials(path)
    assert authorization(credentials) == ""
    assert credentials.headers == (("Impersonate-User", "anna"),)


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    user = {
        "as": "anna",
        "as-uid": "7",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"example.com/scope": ["a", "b"]},
    }
    path = write_kubeconfig(tmp_path / "config", cluster={"server": "https://c"}, user=user)
    assert load_credentials(path).headers == (
        ("Impersonate-User", "anna"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-example.com%2Fscope", "a"),
        ("Impersonate-Extra-example.com%2Fscope", "b"),
    )


def test_proxy_url_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://from-environment")
    with_proxy = {"server": "https://c", "proxy-url": "socks5://from-file"}
    assert load_credentials(write_kubeconfig(tmp_path / "a", cluster=with_proxy)).proxy == "socks5://from-file"
    without = write_kubeconfig(tmp_path / "b", cluster={"server": "https://c"})
    assert load_credentials(without).proxy == "http://from-environment"


def test_a_token_comes_before_an_exec_plugin(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", cluster={"server": "https://c"}, user={"token": "T", "exec": PLUGIN})
    assert authorization(load_credentials(path)) == "Bearer T"


@pytest.mark.parametrize(
    ("cluster", "user", "complaint"),
    [
        ({}, {}, 'cluster "test": server must be a URL that starts with https:// or http://'),
        ({"server": "10.0.0.1:6443"}, {}, "server must be a URL"),
        ({"server": "https://c:port"}, {}, "server must be a URL"),
        ({"proxy-url": "ftp://proxy"}, {}, "proxy-url must be a URL that starts with http:// or https:// or socks5://"),
        (
            {"certificate-authority": "/nowhere/ca.crt"},
            {},
            'cluster "test": certificate-authority /nowhere/ca.crt: No ',
        ),
        ({"certificate-authority-data": "Q0E="}, {}, 'cluster "test": certificate-authority is not a PEM certificate'),
        (
            {"certificate-authority-data": "Q0E=", "insecure-skip-tls-verify": True},
            {},
            "set certificate-authority or insecure-skip-tls-verify, not both",
        ),
        ({}, {"auth-provider": {"name": "gcp"}}, 'user "test": auth-provider "gcp" is gone since Kubernetes 1.26'),
        ({}, {"tokenFile": "nowhere"}, 'user "test": tokenFile .*nowhere: No such file'),
        ({}, {"client-certificate-data": "Qw==", "client-key-data": "Sw=="}, 'user "test": the client certificate and'),
        ({}, {"exec": {"command": "login"}}, 'user "test": exec plugin login: apiVersion "" is not supported'),
        ({}, {"token": "T\n"}, 'user "test": token must be text in one line, but has a line break'),
        ({}, {"as": "a\nb"}, 'user "test": as must be text in one line, but has a line break'),
        ({}, {"as": "a", "as-uid": "\r"}, 'user "test": as-uid must be text in one line'),
        ({}, {"as": "a", "as-groups": ["b", "\x7f"]}, "as-groups must be .* but has the control character U\\+007F"),
        ({}, {"as": "a", "as-user-extra": {"k": ["\0"]}}, "as-user-extra must be .* but has a NUL character"),
        ({"server": "https://c\n"}, {}, "server must be a URL .*, without line breaks or control characters"),
        ({"server": "https://c€"}, {}, "server must be a URL that starts with"),
        ({"proxy-url": "http://a\0b"}, {}, "proxy-url must be a URL .*, without line breaks or control characters"),
        ({"tls-server-name": "a\0b"}, {}, 'cluster "test": tls-server-name is not the name of a host'),
        ({"tls-server-name": "a..b"}, {}, 'cluster "test": tls-server-name is not the name of a host'),
        ({"certificate-authority": "a\0b"}, {}, "certificate-authority: the name of a file cannot have a NUL"),
        ({}, {"as-groups": ["dev"]}, 'user "test": as-uid, as-groups and as-user-extra need as'),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], complaint: str
) -> None:
    server = {} if complaint.startswith('cluster "test": server') else {"server": "https://c"}
    path = write_kubeconfig(tmp_path / "config", cluster=server | cluster, user=user)
    with pytest.raises(CredentialsError, match=complaint) as error:
        load_credentials(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_bad_master_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"^--master: server must be a URL"):
        load_credentials(master="10.0.0.1")
