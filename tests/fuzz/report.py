"""What a run tells: a table of the requests, one of the services, and the findings."""

import hashlib
from pathlib import Path

from bench.figures import Row
from bench.report import render
from tests.fuzz.run import Finding, Run


def tables(run: Run) -> str:
    """What became of the requests of each source, and of the memory of each service."""
    sources: list[Row] = [
        {
            "source": source,
            "requests": tally.requests,
            "by status": ", ".join(f"{status}: {count:,}" for status, count in sorted(tally.statuses.items())),
            "errors at 200": tally.refused,
            "slowest ms": tally.slowest_seconds * 1000,
        }
        for source, tally in run.tallies.items()
    ]
    services: list[Row] = [
        {
            "service": memory.mode,
            "requests before": memory.warm_requests,
            "MiB then": memory.warm_mib,
            "requests in all": run.requests,
            "MiB in the end": memory.mib,
            "limit": memory.limit_mib,
        }
        for memory in run.memories
    ]
    return "\n\n".join(render(rows) for rows in (sources, services) if rows)


def describe(finding: Finding, directory: Path) -> str:
    """Say what was found; the request that causes it goes into a file, to be sent again with --replay."""
    text = f"\n{finding.source}, {finding.mode}: {finding.problem[:2000]}"
    if finding.request is None:
        return text
    directory.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(finding.request.raw).hexdigest()[:12]
    file = directory / f"{finding.mode}-{finding.request.verb or 'http'}-{name}.http"
    file.write_bytes(finding.request.raw)
    file.with_suffix(".answer").write_bytes(finding.answer)
    return f"{text}\n  python -m tests.fuzz --replay {file}"
