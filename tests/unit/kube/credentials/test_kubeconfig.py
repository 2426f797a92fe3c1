from pathlib import Path
from typing import Any

import pytest
import yaml

from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.kubeconfig import load_kubeconfig
from tests.support.servers.kubeconfig_files import write_kubeconfig


def write(path: Path, document: Any) -> Path:
    path.write_text(yaml.safe_dump(document))
    return path


def test_takes_cluster_and_user_of_the_current_context(tmp_path: Path) -> None:
    path = write(
        tmp_path / "config",
        {
            "current-context": "two",
            "contexts": [
                {"name": "one", "context": {"cluster": "a", "user": "anna"}},
                {"name": "two", "context": {"cluster": "b", "user": "bert", "namespace": "ignored"}},
            ],
            "clusters": [
                {"name": "a", "cluster": {"server": "https://a"}},
                {"name": "b", "cluster": {"server": "https://b", "certificate-authority-data": "Q0E="}},
            ],
            "users": [{"name": "anna", "user": {"token": "A"}}, {"name": "bert", "user": {"token": "B"}}],
            "preferences": {},
        },
    )
    selection = load_kubeconfig([path], must_exist=True)
    assert selection.cluster.server == "https://b"
    assert selection.cluster.certificate_authority_data == b"CA"
    assert selection.user.token == "B"


def test_the_first_of_several_files_to_define_something_wins_whole(tmp_path: Path) -> None:
    first = write_kubeconfig(tmp_path / "first", cluster={"server": "https://first"}, user={"username": "u"})
    second = write_kubeconfig(tmp_path / "second", cluster={"server": "https://second"}, user={"token": "T"})
    selection = load_kubeconfig([first, second], must_exist=False)
    assert selection.cluster.server == "https://first"
    assert selection.user.username == "u"
    assert selection.user.token == ""


def test_a_context_may_join_a_cluster_and_a_user_from_other_files(tmp_path: Path) -> None:
    clusters = write(tmp_path / "clusters", {"clusters": [{"name": "c", "cluster": {"server": "https://c"}}]})
    users = write(tmp_path / "users", {"users": [{"name": "u", "user": {"token": "T"}}]})
    contexts = write(
        tmp_path / "contexts",
        {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]},
    )
    selection = load_kubeconfig([clusters, tmp_path / "missing", users, contexts], must_exist=False)
    assert (selection.cluster.server, selection.user.token) == ("https://c", "T")
    assert str(clusters) in selection.cluster_origin
    assert str(users) in selection.user_origin


def test_relative_paths_start_at_the_file_that_holds_them(tmp_path: Path) -> None:
    path = write_kubeconfig(
        tmp_path / "folder" / "config",
        cluster={"server": "https://c", "certificate-authority": "pki/ca.crt"},
        user={
            "client-certificate": "../me.crt",
            "client-key": "/keys/me.key",
            "tokenFile": "token",
            "exec": {"command": "./bin/login", "apiVersion": "x"},
        },
    )
    selection = load_kubeconfig([path], must_exist=True)
    folder = tmp_path / "folder"
    assert selection.cluster.certificate_authority == str(folder / "pki/ca.crt")
    assert selection.user.client_certificate == str(folder / "../me.crt")
    assert selection.user.client_key == "/keys/me.key"
    assert selection.user.token_file == str(folder / "token")
    assert selection.user.exec is not None
    assert selection.user.exec.command == str(folder / "bin/login")


def test_a_bare_command_of_an_exec_plugin_is_left_to_the_path(tmp_path: Path) -> None:
    user = {"exec": {"command": "aws", "args": None, "env": None, "apiVersion": "x"}}
    path = write_kubeconfig(tmp_path / "config", cluster={"server": "https://c"}, user=user)
    plugin = load_kubeconfig([path], must_exist=True).user.exec
    assert plugin is not None
    assert (plugin.command, plugin.args) == ("aws", ())


def test_a_context_needs_no_user(tmp_path: Path) -> None:
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://c"}}],
        "users": None,
    }
    selection = load_kubeconfig([write(tmp_path / "config", document)], must_exist=True)
    assert selection.user.token == ""


CONTEXTS = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
CLUSTERS = [{"name": "c", "cluster": {"server": "https://c"}}]


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({}, "current-context is not set; contexts defined: none"),
        ({"contexts": CONTEXTS}, "current-context is not set; contexts defined: x"),
        ({"current-context": "y", "contexts": CONTEXTS}, 'current-context "y" is not defined; contexts defined: x'),
        ({"current-context": "x", "contexts": CONTEXTS}, 'context "x": cluster "c" is not defined; clusters defined: '),
        (
            {"current-context": "x", "contexts": CONTEXTS, "clusters": CLUSTERS},
            'context "x": user "u" is not defined; users defined: none',
        ),
        ({"kind": "KubeSchedulerConfiguration"}, "its kind is KubeSchedulerConfiguration, that of a kubeconfig is Con"),
        ({"clusters": {"c": {}}}, r"Expected `array`, got `object` - at `\$.clusters`"),
        (
            {"users": [{"name": "u", "user": {"token": 7}}]},
            r"Expected `str`, got `int` - at `\$.users\[0\].user.token`",
        ),
        (["a list"], "Expected `object`, got `array`"),
    ],
)
def test_says_what_is_wrong_in_one_line_that_names_the_file(tmp_path: Path, document: Any, complaint: str) -> None:
    path = write(tmp_path / "config", document)
    with pytest.raises(CredentialsError, match=complaint) as error:
        load_kubeconfig([path], must_exist=True)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_malformed_yaml_is_placed_but_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("users:\n- name: u\n  user: {token: SECRET\n")
    with pytest.raises(CredentialsError, match=r"not valid YAML \(line \d+, column \d+\)$") as error:
        load_kubeconfig([path], must_exist=True)
    assert "SECRET" not in str(error.value)


LAUGHS = "a0: &a0 [lol]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("users: &a [*a]\n", "line 1: an anchor's value contains itself"),
        (LAUGHS, "with its aliases replaced, the document has more than 16,777,216 bytes; use fewer aliases"),
        ("users: " + "[" * 10_000, "nested too deeply"),
        ("kind: Config\nusers: \0", "not valid YAML (byte 20: control characters are not allowed)"),
        ("users: !!int SECRET", "not valid YAML (line 1, column 8)"),
    ],
    ids=["recursive alias", "billion laughs", "deep", "NUL", "no number"],
)
def test_yaml_that_no_reader_can_hold_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(CredentialsError) as error:
        load_kubeconfig([path], must_exist=True)
    assert str(error.value) == f"kubeconfig {path}: {problem}"


@pytest.mark.parametrize("must_exist", [True, False])
def test_at_least_one_file_must_exist(tmp_path: Path, *, must_exist: bool) -> None:
    with pytest.raises(CredentialsError, match=r"missing: [Nn]o such file"):
        load_kubeconfig([tmp_path / "missing"], must_exist=must_exist)
