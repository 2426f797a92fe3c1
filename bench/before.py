"""Compares calls over HTTP with those of another checkout, such as of the commit before a change.

python -m bench.before CHECKOUT, which has a .venv of its own. Both services run at the same time, and are called in
turn for fractions of a second, so that what disturbs the machine disturbs both. "times slower" is the median over these
pairs, with the quartiles. Each start of the services is a new layout of memory, so there are several.
"""

import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.figures import Row, alternately, quantile
from bench.http import MODES, VERBS, Calls, call, kinds_of_calls
from bench.programs import PROGRAM, ClusterSize, Peers, Server, service
from bench.run import NEEDS_GO, Run, parser_of, run_parts

_FORMS, _CLIENTS = ("names", "full"), ("raw", "kube")
_SECONDS = 0.25
_BURSTS = 4  # pairs of measurements for each start


@dataclass
class _Pairs:
    """Median milliseconds of a call of this checkout and of the other, by pairs of measurements."""

    now: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)

    def columns(self) -> Row:
        """Return the columns of a table."""
        ratios = [now / before for now, before in zip(self.now, self.before, strict=True)]
        return {
            "p50": statistics.median(self.now),
            "before": statistics.median(self.before),
            "times slower": statistics.median(ratios),
            "q1": quantile(ratios, 0.25),
            "q3": quantile(ratios, 0.75),
        }


def run(the: Run, checkout: Path, sizes: Sequence[int], forms: Sequence[str], clients: Sequence[str]) -> None:
    """Print a table for each size of cluster: `rounds` starts of both services."""
    if the.peers is None:
        the.report.note("before", NEEDS_GO)
        return
    programs = {"now": PROGRAM, "before": checkout.absolute() / ".venv" / "bin" / PROGRAM.name}
    for nodes in sizes:
        pairs: dict[tuple[Calls, str, str], _Pairs] = {}
        with the.peers.api(ClusterSize(nodes)) as api:
            kinds = [
                calls
                for calls in kinds_of_calls(nodes, quick=the.quick)
                if calls.form in forms and calls.client in clients
            ]
            for start in range(the.rounds):
                the.report.progress("before", f"{nodes} nodes, start {start + 1} of {the.rounds}")
                _measure(the, the.peers, api, programs, kinds, pairs)
        the.report.table("before", f"{nodes} nodes: this checkout and the other", [*_rows(pairs)])


def _service(the: Run, program: Path, *options: str) -> AbstractContextManager[Server]:
    """Run a checkout's service as Kubernetes 1.31; early commits know no other release and have no option for it."""
    known = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    release = "1.31" if "--emulated-version" in known else None
    return service(the.directory, *options, program=[program], release=release)


def _measure(
    the: Run,
    peers: Peers,
    api: Server,
    programs: dict[str, Path],
    kinds: Sequence[Calls],
    pairs: dict[tuple[Calls, str, str], _Pairs],
) -> None:
    """Start both services in both modes, and add what calls of all kinds take."""
    for mode in MODES:
        with ExitStack() as stack:
            servers = {
                side: stack.enter_context(_service(the, program, f"--master={api.url}", f"--mode={mode}"))
                for side, program in programs.items()
            }
            bursts = 1 if the.quick else _BURSTS
            for calls in kinds:
                once = [partial(call, peers, server, calls, VERBS[mode], _SECONDS) for server in servers.values()]
                for of_now, of_before in zip(*alternately(bursts, *once), strict=True):
                    for verb in VERBS[mode]:
                        of_calls = pairs.setdefault((calls, mode, verb), _Pairs())
                        of_calls.now.append(of_now[verb].p50)
                        of_calls.before.append(of_before[verb].p50)


def _rows(pairs: dict[tuple[Calls, str, str], _Pairs]) -> Iterator[Row]:
    for (calls, mode, verb), of_calls in sorted(pairs.items(), key=lambda each: each[0][0].client == "kube"):
        yield {
            "client": calls.client,
            "connections": calls.connections,
            "form": calls.form,
            "mode": mode,
            "verb": verb,
            **of_calls.columns(),
        }


def _main() -> None:
    parser = parser_of("python -m bench.before", __doc__)
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="the folder of the other checkout")
    parser.add_argument("--nodes", type=int, action="append", metavar="N", help="only clusters of this size")
    parser.add_argument("--form", choices=_FORMS, action="append", help="only calls with nodes in this form")
    parser.add_argument("--client", choices=_CLIENTS, action="append", help="only calls by this client")
    options = parser.parse_args()
    sizes = options.nodes or ([100, 500] if options.quick else [100, 500, 5000, 15000])
    forms, clients = options.form or _FORMS, options.client or _CLIENTS
    run_parts(options, [partial(run, checkout=options.checkout, sizes=sizes, forms=forms, clients=clients)])


if __name__ == "__main__":
    _main()
