"""Records what a real kube-scheduler sends its extender: python -m tests.fuzz.record writes it into the corpus.

The extender lets every pod go everywhere and binds none of them, so that they are asked about until enough is recorded.
"""

import gzip
import json
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

from tests.e2e.support import demanding_cluster, preemption_scenarios
from tests.e2e.support.objects import Object
from tests.e2e.support.programs import control_plane, schedulers
from tests.e2e.support.waiting import wait_until
from tests.fuzz.bodies import RECORDED
from tests.support import go_programs

_NODES = 8
_PODS = 70
# Calls by the form of nodes and the verb: each about another pod.
_WANTED = {"filter": 12, "prioritize": 6, "preempt": 1, "bind": 6}

# Verb and the pod's name -> the arguments.
Calls = dict[tuple[str, str], Any]


class _Extender(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls: Calls

    def do_POST(self) -> None:
        verb = self.path.strip("/")
        args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = args["PodName"] if verb == "bind" else args["Pod"]["metadata"]["name"]
        self.calls[verb, name] = args
        answer = json.dumps(_answer(verb, args)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        pass


def _answer(verb: str, args: Any) -> Any:
    match verb:
        case "filter":
            return {"Nodes": args["Nodes"], "NodeNames": args["NodeNames"]}
        case "prioritize":
            return []
        case "preempt":
            proposed = args["NodeNameToMetaVictims"] or {}
            return {"NodeNameToMetaVictims": proposed}
    return {"Error": "nothing is bound while calls are recorded"}


@contextmanager
def _recording(calls: Calls) -> Iterator[str]:
    handler = type("Recorder", (_Extender,), {"calls": calls})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _objects() -> Iterator[Object]:
    yield demanding_cluster.NAMESPACE
    yield from preemption_scenarios.cluster_objects()
    nodes = [found for found in demanding_cluster.surroundings() if found["kind"] == "Node"]
    yield from nodes[:: len(nodes) // _NODES]


def _pods() -> Iterator[Object]:
    yield from islice(demanding_cluster.pods(), _PODS)
    for scenario in (preemption_scenarios.resources(), preemption_scenarios.host_ports()):
        yield from scenario.running


def _preemptor(zone: str) -> Object:
    """A pod that fits only where others go."""
    pod = preemption_scenarios.preemptor(requests={"memory": "12Gi"}, nodeSelector={"zone": zone})
    return {**pod, "metadata": {**pod["metadata"], "name": f"preemptor-{zone}"}}


def _record(running: control_plane.ControlPlane, *, node_cache_capable: bool) -> Iterator[tuple[str, Any]]:
    calls: Calls = {}
    with _recording(calls) as url:
        extender = schedulers.replacing(url, node_cache_capable=node_cache_capable)
        extender["profiles"] = [{"schedulerName": "default-scheduler"}]
        with schedulers.running(running, extender):
            # One for each: its victims are gone then.
            running.api.create(_preemptor("a" if node_cache_capable else "b"))
            wait_until(lambda: _wanted(calls) is not None, "all kinds of calls", 60)
    yield from _wanted(calls) or []


def _wanted(calls: Calls) -> list[tuple[str, Any]] | None:
    """The calls that are kept, once there are enough."""
    found = Counter(verb for verb, _ in calls)
    if any(found[verb] < wanted for verb, wanted in _WANTED.items()):
        return None
    by_verb = {verb: [(verb, args) for (of_verb, _), args in calls.items() if of_verb == verb] for verb in _WANTED}
    return [
        call for verb, wanted in _WANTED.items() for call in by_verb[verb][:: len(by_verb[verb]) // wanted][:wanted]
    ]


def main() -> None:
    """Record from two kube-schedulers: one that sends the names of nodes, and one that sends them whole."""
    binary = go_programs.build(Path(control_plane.__file__).with_name("controlplane"))
    with tempfile.TemporaryDirectory() as directory, control_plane.ControlPlane(binary, Path(directory)) as running:
        running.api.create(*_objects())
        running.api.create(*_pods())
        calls = [call for capable in (True, False) for call in _record(running, node_cache_capable=capable)]
    lines = "".join(json.dumps({"verb": verb, "args": args}) + "\n" for verb, args in calls)
    RECORDED.write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    main()
