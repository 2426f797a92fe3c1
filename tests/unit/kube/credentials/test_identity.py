import asyncio
import base64
from pathlib import Path

import pytest
import trustme

from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.identity import CurrentIdentity, Identity, KubeconfigUser
from extender_service.kube.credentials.kubeconfig import User

AUTHORITY = trustme.CA()


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_a_token_is_a_bearer_token() -> None:
    assert KubeconfigUser(User(token="T"), "user u").last == Identity("Bearer T")


def test_a_token_wins_over_a_token_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from the file")
    assert KubeconfigUser(User(token="T", token_file=str(tmp_path / "token")), "user u").last == Identity("Bearer T")


def test_username_and_password_are_basic_authentication() -> None:
    expected = "Basic " + base64.b64encode("anna:päss".encode()).decode()
    assert KubeconfigUser(User(username="anna", password="päss"), "user u").last == Identity(expected)


def test_data_of_certificate_and_key_win_over_files(tmp_path: Path) -> None:
    (tmp_path / "cert").write_text("file")
    user = User(client_certificate=str(tmp_path / "cert"), client_certificate_data=b"C", client_key_data=b"K")
    assert KubeconfigUser(user, "user u").last == Identity("", b"C", b"K")


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    clock = Clock()

    async def main() -> None:
        identity = CurrentIdentity(KubeconfigUser(User(token_file=str(token)), "user u", clock), clock)
        assert await identity.get() == Identity("Bearer one")
        token.write_text("two\n")
        clock.seconds += 59
        assert await identity.get() == Identity("Bearer one")
        clock.seconds += 1
        assert await identity.get() == Identity("Bearer two")

    asyncio.run(main())


def test_a_rejected_token_is_read_again_at_once_and_only_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")

    async def main() -> None:
        identity = CurrentIdentity(KubeconfigUser(User(token_file=str(token)), "user u"))
        one = await identity.get()
        token.write_text("two")
        two = await identity.renew(one)
        assert two == Identity("Bearer two")
        token.write_text("three")
        assert await identity.renew(one) == two  # another request was rejected with the old token
        assert await identity.get() == two

    asyncio.run(main())


def test_an_identity_in_doubt_is_read_again_before_it_is_used(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")

    async def main() -> None:
        identity = CurrentIdentity(KubeconfigUser(User(token_file=str(token)), "user u"))
        one = await identity.get()
        token.write_text("two")
        identity.doubt(Identity("Bearer another"))
        assert await identity.get() == one
        identity.doubt(one)
        assert await identity.get() == Identity("Bearer two")

    asyncio.run(main())


def pair() -> Identity:
    certificate = AUTHORITY.issue_cert("me@example.com")
    return Identity("", certificate.cert_chain_pems[0].bytes(), certificate.private_key_pem.bytes())


def test_certificate_files_are_read_again(tmp_path: Path) -> None:
    clock = Clock()
    one, two = pair(), pair()
    certificate, key = tmp_path / "cert", tmp_path / "key"
    certificate.write_bytes(one.certificate_pem)
    key.write_bytes(one.key_pem)

    async def main() -> None:
        user = User(client_certificate=str(certificate), client_key=str(key))
        identity = CurrentIdentity(KubeconfigUser(user, "user u", clock), clock)
        assert await identity.get() == one
        certificate.write_bytes(two.certificate_pem)
        key.write_bytes(two.key_pem)
        clock.seconds += 59
        assert await identity.get() == one
        clock.seconds += 1
        assert await identity.get() == two

    asyncio.run(main())


@pytest.mark.parametrize("half", ["another", "cut", "empty"])
@pytest.mark.parametrize("first", ["cert", "key"])
def test_a_certificate_and_key_that_do_not_fit_yet_leave_the_last_ones_and_are_soon_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: str, half: str
) -> None:
    clock = Clock()
    one, two = pair(), pair()
    new = {"cert": two.certificate_pem, "key": two.key_pem}
    (tmp_path / "cert").write_bytes(one.certificate_pem)
    (tmp_path / "key").write_bytes(one.key_pem)

    async def main() -> None:
        user = User(client_certificate=str(tmp_path / "cert"), client_key=str(tmp_path / "key"))
        identity = CurrentIdentity(KubeconfigUser(user, "user u", clock), clock)
        assert await identity.get() == one
        written = new[first]
        (tmp_path / first).write_bytes({"another": written, "cut": written[:200], "empty": b""}[half])
        clock.seconds += 60
        for _ in range(10):
            assert await identity.get() == one
            assert identity.current() == one
            clock.seconds += 1
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith("user u: ")
        for name, content in new.items():
            (tmp_path / name).write_bytes(content)
        assert await identity.get() == two

    asyncio.run(main())


def test_a_file_that_vanishes_leaves_the_token_it_held(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token = tmp_path / "token"
    token.write_text("SECRET")

    async def main() -> None:
        identity = CurrentIdentity(KubeconfigUser(User(token_file=str(token)), "user u"))
        one = await identity.get()
        token.unlink()
        assert await identity.renew(one) == one

    asyncio.run(main())
    assert f"user u: tokenFile {token}: No such file or directory" in caplog.text
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize(
    ("user", "complaint"),
    [
        (User(token_file="/nowhere/token"), "user u: tokenFile /nowhere/token: No such file"),
        (User(token_file="/dev/null"), "user u: tokenFile /dev/null: the file is empty"),
        (User(client_certificate="/nowhere/crt"), "user u: client-certificate /nowhere/crt: No such file"),
        (User(client_certificate_data=b"C", client_key="/nowhere/key"), "user u: client-key /nowhere/key: No such"),
        (User(client_certificate_data=b"C"), "set both, client-certificate and client-key"),
        (User(client_key_data=b"K"), "set both, client-certificate and client-key"),
        (User(token="T\n"), "user u: token must be text in one line, but has a line break"),
        (User(token_file="a\0b"), "user u: tokenFile: the name of a file cannot have a NUL character"),
        (User(client_certificate="a\0b"), "user u: client-certificate: the name of a file cannot have a NUL"),
        (User(token="T", password="P"), "set a token or username and password, not both"),
    ],
)
def test_what_is_missing_or_contradictory_is_told_at_the_start(user: User, complaint: str) -> None:
    with pytest.raises(CredentialsError, match=complaint):
        KubeconfigUser(user, "user u")


def test_a_field_is_named_as_its_configuration_names_it() -> None:
    user = User(client_certificate="/nowhere/crt", client_key="/nowhere/key")
    with pytest.raises(CredentialsError, match=r"^extenders\[0\]\.tlsConfig: certFile /nowhere/crt: No such file"):
        KubeconfigUser(user, "extenders[0].tlsConfig", field_names=("certFile", "keyFile"))


def test_a_token_file_is_trimmed_as_client_go_does(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" T\r\n\n")
    assert KubeconfigUser(User(token_file=str(tmp_path / "token")), "user u").last == Identity("Bearer T")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"one\ntwo\n", "has a line break"), ("one".encode("utf-16"), "has a NUL character")],
    ids=["two lines", "UTF-16"],
)
def test_a_token_file_that_holds_more_than_a_token_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(CredentialsError) as error:
        KubeconfigUser(User(token_file=str(file)), "user u")
    assert str(error.value) == f"user u: tokenFile {file}: the token must be text in one line, but {complaint}"


def test_a_token_file_that_is_half_written_leaves_the_token_it_held(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text("whole")

    async def main() -> Identity:
        identity = CurrentIdentity(KubeconfigUser(User(token_file=str(token)), "user u"))
        token.write_text("one\ntwo")
        return await identity.renew(await identity.get())

    assert asyncio.run(main()) == Identity("Bearer whole")
    assert "the token must be text in one line, but has a line break" in caplog.text


def test_an_identity_does_not_print_its_secrets() -> None:
    assert "SECRET" not in repr(Identity("Bearer SECRET", b"SECRET", b"SECRET"))


def test_an_identity_is_current_while_it_is_valid_and_not_being_read(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    clock = Clock()

    async def main() -> None:
        identity = CurrentIdentity(KubeconfigUser(User(token_file=str(token)), "user u", clock), clock)
        assert identity.current() is None
        one = await identity.get()
        assert identity.current() is one
        clock.seconds += 60
        assert identity.current() is None

    asyncio.run(main())
