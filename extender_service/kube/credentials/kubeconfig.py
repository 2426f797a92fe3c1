"""Reads and merges kubeconfig files, and selects the cluster and user of the current context.

The rules are those of client-go (tools/clientcmd/loader.go). If several files define the same cluster, user or context,
the first definition wins as a whole. The first current-context wins, too. Relative paths start at the folder of their
file.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from yaml.reader import ReaderError

from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.parsing.yaml_documents import AliasError, ManifestLoader

# Go's decoder of base64 skips line breaks, as in a value that YAML folds or that base64 has wrapped.
_BASE64_FIELDS = frozenset({"certificate-authority-data", "client-certificate-data", "client-key-data"})
_LINE_BREAKS = str.maketrans("", "", "\r\n")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class _Kebab(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of the types whose keys are written with hyphens."""


class NamedExtension(msgspec.Struct, frozen=True):
    """v1.NamedExtension: data of other programs."""

    name: str = ""
    extension: Any = None


class KubeconfigCluster(_Kebab, frozen=True):
    """v1.Cluster: an API server's URL, and how to verify its certificate."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes = b""  # base64 in the file
    proxy_url: str = ""
    extensions: tuple[NamedExtension, ...] = ()

    @property
    def exec_config(self) -> Any:
        """The cluster's extension for exec plugins (client.authentication.k8s.io/exec), None without one."""
        return next((item.extension for item in self.extensions if item.name == _EXEC_EXTENSION), None)


class EnvVar(msgspec.Struct, frozen=True):
    """v1.ExecEnvVar."""

    name: str
    value: str = ""


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """v1.ExecConfig: a program that prints credentials."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    api_version: str = ""
    interactive_mode: str = ""
    provide_cluster_info: bool = False
    install_hint: str = ""


class AuthProvider(msgspec.Struct, frozen=True):
    """v1.AuthProviderConfig, removed in Kubernetes 1.26. Decoded only to report that."""

    name: str = ""


class User(_Kebab, frozen=True):
    """v1.AuthInfo: a user's credentials, and the user to impersonate."""

    client_certificate: str = ""
    client_certificate_data: bytes = b""  # base64 in the file
    client_key: str = ""
    client_key_data: bytes = b""  # base64 in the file
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    exec: ExecConfig | None = None
    auth_provider: AuthProvider | None = None
    impersonate: str = msgspec.field(name="as", default="")
    impersonate_uid: str = msgspec.field(name="as-uid", default="")
    impersonate_groups: tuple[str, ...] = msgspec.field(name="as-groups", default=())
    impersonate_extra: dict[str, tuple[str, ...]] = msgspec.field(name="as-user-extra", default={})


class Context(_Kebab, frozen=True):
    """v1.Context: a pair of cluster and user."""

    cluster: str = ""
    user: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: KubeconfigCluster


class _NamedUser(msgspec.Struct):
    name: str
    user: User


class _NamedContext(msgspec.Struct):
    name: str
    context: Context


class _File(_Kebab, frozen=True):
    """v1.Config, a kubeconfig file."""

    kind: str = "Config"
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


class Selection(msgspec.Struct, frozen=True):
    """The cluster and user of the current context, with absolute paths. `*_origin`: their place, for error texts."""

    cluster: KubeconfigCluster
    cluster_origin: str
    user: User
    user_origin: str


def load_kubeconfig(paths: Sequence[Path], *, must_exist: bool) -> Selection:
    """Read the files and return the cluster and user of the current context.

    Skips missing files, unless `must_exist`. Raises CredentialsError, also if all files are missing.
    """
    files = [(path, _read(path)) for path in paths if must_exist or path.exists()]
    names = ", ".join(str(path) for path in paths)
    if not files:
        raise CredentialsError(f"kubeconfig {names}: no such file")
    current = next((file.current_context for _, file in files if file.current_context), "")
    contexts = _first({item.name: (path, item.context) for item in file.contexts} for path, file in files)
    clusters = _first({item.name: (path, item.cluster) for item in file.clusters} for path, file in files)
    users = _first({item.name: (path, item.user) for item in file.users} for path, file in files)

    if not current:
        raise CredentialsError(f"kubeconfig {names}: current-context is not set; {_choices('contexts', contexts)}")
    if current not in contexts:
        raise CredentialsError(
            f'kubeconfig {names}: current-context "{current}" is not defined; {_choices("contexts", contexts)}'
        )
    path, context = contexts[current]
    origin = f'kubeconfig {path}: context "{current}"'
    if context.cluster not in clusters:
        raise CredentialsError(
            f'{origin}: cluster "{context.cluster}" is not defined; {_choices("clusters", clusters)}'
        )
    if context.user and context.user not in users:
        raise CredentialsError(f'{origin}: user "{context.user}" is not defined; {_choices("users", users)}')
    cluster_path, cluster = clusters[context.cluster]
    user_path, user = users.get(context.user, (path, User()))
    return Selection(
        cluster=_resolve(cluster, cluster_path, "certificate_authority"),
        cluster_origin=f'kubeconfig {cluster_path}: cluster "{context.cluster}"',
        user=_resolve_user(user, user_path),
        user_origin=f'kubeconfig {user_path}: user "{context.user}"',
    )


def _read(path: Path) -> _File:
    try:
        data = yaml.load(path.read_bytes(), ManifestLoader)  # noqa: S506 - it is a safe loader
        file = msgspec.convert({} if data is None else _as_go_reads(data), _File)
    except OSError as error:
        raise CredentialsError(f"kubeconfig {path}: {error.strerror}") from error
    except ReaderError as error:
        raise CredentialsError(f"kubeconfig {path}: not valid YAML (byte {error.position}: {error.reason})") from error
    except yaml.YAMLError as error:
        # Only the place: the text of the error quotes lines, and those may hold secrets.
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise CredentialsError(f"kubeconfig {path}: not valid YAML{place}") from error
    except (AliasError, msgspec.ValidationError) as error:
        raise CredentialsError(f"kubeconfig {path}: {error}") from error
    except RecursionError as error:
        raise CredentialsError(f"kubeconfig {path}: nested too deeply") from error
    if file.kind != "Config":
        raise CredentialsError(f"kubeconfig {path}: its kind is {file.kind}, that of a kubeconfig is Config")
    return file


def _as_go_reads(value: Any, field: Any = None) -> Any:
    """Return the document without nulls, which mean that a field is not set, and base64 without line breaks."""
    if isinstance(value, dict):
        return {key: _as_go_reads(item, key) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_as_go_reads(item) for item in value]
    return value.translate(_LINE_BREAKS) if field in _BASE64_FIELDS and isinstance(value, str) else value


_V = TypeVar("_V")
_S = TypeVar("_S", bound=msgspec.Struct)


def _first(maps: Iterable[dict[str, _V]]) -> dict[str, _V]:
    merged: dict[str, _V] = {}
    for one in maps:
        merged = one | merged
    return merged


def _choices(what: str, defined: dict[str, Any]) -> str:
    return f"{what} defined: {', '.join(defined) or 'none'}"


def _resolve(part: _S, path: Path, *fields: str) -> _S:
    """Make the paths in these fields absolute. Relative paths start at the folder of the file."""
    folder = path.absolute().parent
    written = {field: getattr(part, field) for field in fields}
    return msgspec.structs.replace(part, **{field: str(folder / value) for field, value in written.items() if value})


def _resolve_user(user: User, path: Path) -> User:
    user = _resolve(user, path, "client_certificate", "client_key", "token_file")
    if user.exec and "/" in user.exec.command:  # a bare command is looked up in PATH
        user = msgspec.structs.replace(user, exec=_resolve(user.exec, path, "command"))
    return user
