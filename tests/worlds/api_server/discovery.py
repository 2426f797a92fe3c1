"""/version, /api, /apis and the lists of resources, of the kinds that the model has."""

from typing import Any

from tests.worlds.api_server.kinds import BY_PATH, PODS

Object = dict[str, Any]

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_PATCH_LEVELS = {31: 1, 37: 2}
_GROUPS = {group: version for group, version, _ in BY_PATH}


def discover(path: str, minor: int) -> Object | None:
    """Return what a path of the discovery says; None if it is another path."""
    match path.strip("/").split("/"):
        case ["version"]:
            return {"major": "1", "minor": str(minor), "gitVersion": f"v1.{minor}.{_PATCH_LEVELS.get(minor, 0)}"}
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            found = [_group(group, version) for group, version in _GROUPS.items() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
        case ["api", version]:
            return _resources("", version) if version == "v1" else None
        case ["apis", group] if group and group in _GROUPS:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, _GROUPS[group])}
        case ["apis", group, version] if group and _GROUPS.get(group) == version:
            return _resources(group, version)
        case _:
            return None


def _group(group: str, version: str) -> Object:
    served = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [served], "preferredVersion": served}


def _resources(group: str, version: str) -> Object:
    found: list[Object] = []
    for kind in BY_PATH.values():
        if (kind.group, kind.version) == (group, version):
            entry = {"name": kind.plural, "singularName": kind.name.lower(), "namespaced": kind.is_namespaced}
            found.append({**entry, "kind": kind.name, "verbs": _VERBS})
            if kind.has_status:
                status = {**entry, "name": f"{kind.plural}/status", "singularName": ""}
                found.append({**status, "kind": kind.name, "verbs": ["get", "patch", "update"]})
            if kind is PODS:
                for name, of in (("binding", "Binding"), ("eviction", "Eviction")):
                    part = {"name": f"pods/{name}", "singularName": "", "namespaced": True, "kind": of}
                    found.append({**part, "verbs": ["create"]})
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found}
