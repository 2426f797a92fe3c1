"""Times calls over HTTP, in comparison with a Go extender that checks one plugin: python -m bench.http.

`extload` calls both with the same bytes (raw), and with kube-scheduler's client (kube), about all nodes of a cluster.
The service runs the default profile for a pod of a ReplicaSet. For mode `replace`, only filter is compared: it makes
the whole decision, and kube-scheduler calls no other verb. The last table is of the service alone: calls about pods of
which no two are alike, on nodes of which no two are, beside calls about one pod again and again.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import msgspec

from bench import synthetic, unlike
from bench.caller import Caller
from bench.figures import Row, Times, alternately, at_most, compared, over_rounds
from bench.programs import ClusterSize, Peers, Server, service
from bench.run import NEEDS_GO, Run, main

MODES = ("replace", "beside")
# A connection's first calls, which are not counted, and the fewest that are, however busy the machine is.
_FIRST_CALLS, _LEAST_CALLS = 3, 20
VERBS = {"go": ("filter", "prioritize"), "replace": ("filter",), "beside": ("filter", "prioritize")}


@dataclass(frozen=True)
class Calls:
    """A kind of calls: nodes by name or whole (full), on so many connections at a time."""

    form: str
    nodes: int
    client: str
    connections: int

    def times_faster(self) -> float | None:
        """The target: how many times faster than the Go extender; None for no target."""
        if self.client != "raw" or self.connections != 1:
            return None
        return {("names", 500): 1 / 1.5, ("names", 5000): 1.0, ("full", 5000): 6.0}.get((self.form, self.nodes))


def run(the: Run) -> None:
    """Print a table of all calls, and one of their slowest and of their growth with the number of nodes."""
    if the.peers is None:
        the.report.note("http", f"the Go extender and kube-scheduler's client: {NEEDS_GO}")
        _without_peers(the)
        _unlike(the)
        return
    measured: dict[Calls, dict[str, dict[str, Times]]] = {}
    for nodes in (100, 500) if the.quick else (100, 500, 5000, 15000):
        measured |= _about_all_nodes(the, the.peers, nodes)
    title = "calls about all nodes of clusters with ten pods a node; the service, the Go extender"
    the.report.table("http", title, [row for calls, sides in measured.items() for row in _rows(calls, sides)])
    the.report.table("http", "raw, one connection: the slowest calls, and how calls grow", [*_limits(measured)])
    _unlike(the)


def _about_all_nodes(the: Run, peers: Peers, nodes: int) -> dict[Calls, dict[str, dict[str, Times]]]:
    """Measure all kinds of calls about all nodes of a cluster of this size."""
    with ExitStack() as stack:
        api = stack.enter_context(peers.api(ClusterSize(nodes)))
        servers = {"go": stack.enter_context(peers.extender(api))}
        for mode in MODES:
            servers[mode] = stack.enter_context(service(the.directory, f"--master={api.url}", f"--mode={mode}"))
        return _measure(the, peers, servers, [*kinds_of_calls(nodes, quick=the.quick)])


def kinds_of_calls(nodes: int, *, quick: bool) -> Iterator[Calls]:
    """Yield the kinds of calls that are measured for a cluster of this size."""
    for client in ("raw", "kube"):
        for connections in (1, 8):
            yield Calls("names", nodes, client, connections)
            # Eight calls of 5,000 whole nodes at once are 450 MB of JSON.
            if nodes == (100 if quick else 500) or (nodes == 5000 and connections == 1):
                yield Calls("full", nodes, client, connections)


def call(peers: Peers, server: Server, calls: Calls, verbs: Sequence[str], seconds: float) -> dict[str, Times]:
    """Call each of the verbs for so long, at most 1,000 times. Returns the times by verb."""
    rows = peers.call(
        server,
        f"-form={calls.form}",
        f"-sizes={calls.nodes}",
        f"-client={calls.client}",
        f"-conns={calls.connections}",
        f"-verb={','.join(verbs)}",
        "-class=plain-rs",
        "-count=1000",
        "-min-count=5",
        f"-budget={seconds}s",
    )
    return {row["verb"]: Times(row["p50_ms"], row["p99_ms"]) for row in rows}


def _measure(
    the: Run, peers: Peers, servers: Mapping[str, Server], all_calls: Sequence[Calls]
) -> dict[Calls, dict[str, dict[str, Times]]]:
    """Return the times by kind of calls, side and verb.

    Each round measures all kinds. So if the machine is busy for a moment, it spoils one round of some kinds, and not
    all rounds of one kind.
    """

    def once(calls: Calls, side: str) -> dict[str, Times]:
        the.report.progress("http", f"{calls.nodes} {calls.form}, {calls.client}, {calls.connections} connections")
        return call(peers, servers[side], calls, VERBS[side], seconds=0.2 if the.quick else 1)

    measured: dict[Calls, dict[str, dict[str, Times]]] = {calls: {} for calls in all_calls}
    each = [(calls, side) for calls in all_calls for side in servers]
    rounds = alternately(the.rounds, *(partial(once, calls, side) for calls, side in each))
    for (calls, side), of_side in zip(each, rounds, strict=True):
        measured[calls][side] = over_rounds(of_side)
    return measured


def _rows(calls: Calls, sides: Mapping[str, Mapping[str, Times]]) -> Iterator[Row]:
    for mode in MODES:
        for verb, times in sides[mode].items():
            yield {
                "client": calls.client,
                "connections": calls.connections,
                "form": calls.form,
                "nodes": calls.nodes,
                "mode": mode,
                "verb": verb,
                **compared(times, sides["go"][verb], calls.times_faster()),
            }


def _limits(measured: Mapping[Calls, Mapping[str, Mapping[str, Times]]]) -> Iterator[Row]:
    for calls, sides in measured.items():
        if calls.client != "raw" or calls.connections != 1:
            continue
        for mode in MODES:
            for verb, times in sides[mode].items():
                what = f"{calls.form}, {calls.nodes} nodes, {mode} {verb}"
                yield {"calls": what, "figure": "p99 / p50", **at_most("value", times.p99 / times.p50, 2.5)}
                third = Calls(calls.form, calls.nodes // 3, calls.client, calls.connections)
                if third in measured:
                    grown = times.p50 / measured[third][mode][verb].p50
                    yield {"calls": what, "figure": "p50 / of a third of the nodes", **at_most("value", grown, 3.3)}


def _without_peers(the: Run) -> None:
    """Measure what needs no Go: calls by name over one connection, about a cluster from a file."""
    nodes = 1000 if the.quick else 5000
    file = the.directory / "cluster.json"
    file.write_text(json.dumps(synthetic.manifests(nodes, 10)))
    pod = synthetic.pending_manifest("plain-rs")
    rows: list[Row] = []
    for mode in MODES:
        with service(the.directory, f"--cluster-file={file}", f"--mode={mode}") as server:
            for asked in (100, 500, nodes):
                names = [f"node-{index:05}" for index in range(asked)]
                body = msgspec.json.encode({"Pod": pod, "NodeNames": names})
                for verb in VERBS[mode]:
                    times = _called(server, itertools.repeat(body), verb, 0.2 if the.quick else 2)
                    rows.append({"nodes": asked, "mode": mode, "verb": verb, **compared(times, None)})
    the.report.table("http", f"{nodes} nodes, {nodes * 10} pods, from a file; one connection", rows)


def _called(server: Server, bodies: Iterator[bytes], verb: str, seconds: float) -> Times:
    """Call a verb with one body after the other, and return the times of the calls except the first few."""
    with Caller(server, bodies, verb) as caller:
        caller.wait(seconds, _FIRST_CALLS + _LEAST_CALLS)
    return Times.of(caller.milliseconds[_FIRST_CALLS:])


def _unlike(the: Run) -> None:
    """Measure filter in `replace` about all nodes of a file, for pods alike and unlike in turn."""
    nodes = 500 if the.quick else 5000
    made = unlike.manifests(nodes, 10)
    files = {"unlike": unlike.as_list(made), "alike": synthetic.manifests(nodes, 10)}
    pods = {name: unlike.pending_manifests(name) for name in synthetic.CLASSES}
    del made
    names = msgspec.json.encode([f"node-{index:05}" for index in range(nodes)])
    with ExitStack() as stack:
        servers: dict[str, Server] = {}
        for kind, manifests in files.items():
            file = the.directory / f"{kind}.json"
            file.write_text(json.dumps(manifests))
            servers[kind] = stack.enter_context(service(the.directory, f"--cluster-file={file}", "--mode=replace"))

        def calls(kind: str) -> dict[str, Times]:
            found = {}
            for name in synthetic.CLASSES:
                asked = pods[name] if kind == "unlike" else itertools.repeat(synthetic.pending_manifest(name))
                bodies = (b'{"Pod":%b,"NodeNames":%b}' % (msgspec.json.encode(pod), names) for pod in asked)
                found[name] = _called(servers[kind], bodies, "filter", 0.2 if the.quick else 1)
            return found

        measured = alternately(the.rounds, *(partial(calls, kind) for kind in files))
    of_unlike, of_alike = (over_rounds(rounds) for rounds in measured)
    the.report.table(
        "http unlike",
        f"filter about {nodes} names in `replace`, one connection: no two pods alike, and always the same pod",
        [
            {"class": name, "unlike p50": times.p50, "unlike p99": times.p99, "alike p50": of_alike[name].p50}
            for name, times in of_unlike.items()
        ],
    )


if __name__ == "__main__":
    main("python -m bench.http", __doc__, [run])
