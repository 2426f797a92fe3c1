"""The text for a first-time user: a curl command for each verb, about the pods and nodes of the cluster file."""

import shlex
from collections.abc import Mapping, Sequence

import msgspec

from extender_service.kube.types.core import Node, Pod

_SHOWN_PODS = 2


def welcome(url: str, nodes: Sequence[Node], pods: Sequence[Pod], *, shows_certificate: bool = False) -> str:
    """Return a text with commands to paste.

    `url` is the service's URL. With `shows_certificate`, the commands present a client certificate.
    """
    names = [node.metadata.name for node in nodes]
    waiting = sorted((pod for pod in pods if not pod.spec.node_name), key=lambda pod: pod.spec.priority)
    lines = [f"extender-service answers on {url} (docs: {url}/docs)"]
    if not waiting or not names:
        return lines[0]
    lines.append(f"The cluster has {len(names)} nodes, and {len(waiting)} pods wait for one. Try, in another terminal:")
    curl = f"curl -s {url}"
    if url.startswith("https:"):
        files = "--cacert ca.crt" + " --cert client.crt --key client.key" * shows_certificate
        curl = f"curl -s {files} {url}"
        lines.append(f"Put files of your own in place of those in {files}.")
    first, last = waiting[0], waiting[-1]
    for pod in waiting[:_SHOWN_PODS]:
        lines += _command(f"Which nodes may {_name(pod)} go to?", curl, "filter", {"Pod": pod, "NodeNames": names})
    lines += _command(
        f"How good is each of them for {_name(first)}?", curl, "prioritize", {"Pod": first, "NodeNames": names}
    )
    victims = _victims(last, pods)
    if victims:
        question = f"On which nodes would {_name(last)} fit if kube-scheduler deleted these pods?"
        lines += _command(question, curl, "preempt", {"Pod": last, "NodeNameToMetaVictims": victims})
    binding = {
        "PodName": first.metadata.name,
        "PodNamespace": first.metadata.namespace,
        "PodUID": first.metadata.uid,
        "Node": names[0],
    }
    lines += _command(f"Bind {_name(first)} to {names[0]} (in memory; the file stays as it is).", curl, "bind", binding)
    return "\n".join(lines)


def _command(question: str, curl: str, verb: str, body: Mapping[str, object]) -> list[str]:
    return ["", f"# {question}", f"{curl}/{verb} -d {shlex.quote(_json(body))}"]


def _json(body: Mapping[str, object]) -> str:
    return msgspec.json.encode({key: _brief(value) for key, value in body.items()}).decode()


def _brief(value: object) -> object:
    """Leave the empty fields out of a pod."""
    built = msgspec.to_builtins(value)
    return _without_empty(built) if isinstance(value, Pod) else built


def _without_empty(value: object) -> object:
    if isinstance(value, dict):
        kept = {key: _without_empty(member) for key, member in value.items()}
        return {key: member for key, member in kept.items() if member}
    if isinstance(value, (list, tuple)):
        return [_without_empty(member) for member in value]
    return value


def _victims(pod: Pod, pods: Sequence[Pod]) -> dict[str, object]:
    """Return all running pods of lower priority as NodeNameToMetaVictims."""
    victims: dict[str, list[dict[str, str]]] = {}
    for other in pods:
        if other.spec.node_name and other.spec.priority < pod.spec.priority:
            victims.setdefault(other.spec.node_name, []).append({"UID": other.metadata.uid})
    return {name: {"Pods": uids, "NumPDBViolations": 0} for name, uids in victims.items()}


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
