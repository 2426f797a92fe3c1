"""Sends generated requests to the services, and looks at everything that comes of them."""

import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from unittest import SkipTest

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests.fuzz.checker import GoChecker
from tests.fuzz.connections import HangError, exchange
from tests.fuzz.requests import Answer, Request
from tests.fuzz.services import FuzzedService
from tests.fuzz.soundness import problems, uid_asked_about
from tests.fuzz.stub_api import StubApi

# Requests that are sent at once to each service, over connections of their own.
Volley = Sequence[Request]

# Each turn of a source begins with the simplest requests that it knows: it needs some to come to others.
_REQUESTS_IN_A_ROUND = 5000
# Until then, caches fill and the memory that is kept for reuse grows; after that, nothing should.
_WARM_SHARE = 0.4
_GROWTH_MIB = 8.0
_VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|[0-9]+")


class FoundError(Exception):
    """A request came to something that it should not."""


@dataclass
class Tally:
    """What became of a source's requests."""

    requests: int = 0
    refused: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    slowest_seconds: float = 0.0

    def count(self, answers: Sequence[Answer]) -> None:
        """Count a request and its answers: none if it was not whole, several if it was more than one."""
        self.requests += 1
        for answer in answers:
            self.statuses[answer.status] += 1
            self.refused += answer.status == 200 and _has_error(answer)
            self.slowest_seconds = max(self.slowest_seconds, answer.seconds)


@dataclass(frozen=True)
class Finding:
    """A problem, the smallest request that is known to cause it, and what was answered, as far as there is any."""

    source: str
    mode: str
    problem: str
    request: Request | None = None
    answer: bytes = b""

    @property
    def kind(self) -> str:
        """The same for problems that differ in their details alone."""
        verb = None if self.request is None else self.request.verb
        return f"{verb} {_VARIABLE.sub('', self.problem)[:100]}"


@dataclass(frozen=True)
class Source:
    """Where requests come from, and which share of all."""

    name: str
    share: float
    volleys: SearchStrategy[Volley]


class Memory:
    """What a service had in use once it had answered many a request, and has in the end."""

    def __init__(self, service: FuzzedService, requests: int) -> None:
        self._service = service
        self.mode = service.mode
        self.warm_requests = requests
        self.mib = self.warm_mib = service.resident_mib
        self.limit_mib = self.warm_mib + _GROWTH_MIB

    def take(self) -> float:
        """Look again."""
        self.mib = self._service.resident_mib
        return self.mib


class Run:
    """A run over some services: `tallies` by source, `memories` by service, and `findings`, one of each kind."""

    def __init__(self, services: Sequence[FuzzedService], api: StubApi, checker: GoChecker) -> None:
        self.tallies: dict[str, Tally] = {}
        self.memories: list[Memory] = []
        self.findings: list[Finding] = []
        self._services = services
        self._api = api
        self._checker = checker
        self._asked_about: set[str] = set()

    @property
    def requests(self) -> int:
        """How many were sent to all services together."""
        return sum(tally.requests for tally in self.tallies.values())

    def explore(self, sources: Sequence[Source], requests: int, seconds: float, seed_number: int) -> None:
        """Let all sources take turns, so that each finds the services in the states that others leave behind.

        Ends after so many requests, or soon after so many seconds.
        """
        deadline = time.monotonic() + seconds
        rounds = max(requests // _REQUESTS_IN_A_ROUND, 2)
        warm = math.ceil(rounds * _WARM_SHARE)
        for number in range(rounds):
            if number == warm:
                self.memories = [Memory(service, self.requests) for service in self._services]
            for source in sources:
                if time.monotonic() < deadline:
                    share = math.ceil(requests * source.share / rounds)
                    self._turn(source.name, source.volleys, share, 1000 * seed_number + number)
        for memory in self.memories:
            if memory.take() > memory.limit_mib:
                self._note(Finding("all", memory.mode, f"grew from {memory.warm_mib:.1f} to {memory.mib:.1f} MiB"))

    def replay(self, requests: Sequence[Request]) -> None:
        """Send requests one after the other."""
        self.tallies["replayed"] = Tally()
        for request in requests:
            for finding in self._findings("replayed", [request]):
                self._note(finding)
        self._look_at_services("replayed")

    def _turn(self, source: str, volleys: SearchStrategy[Volley], requests: int, seed_number: int) -> None:
        tally = self.tallies.setdefault(source, Tally())
        end = tally.requests + requests
        while tally.requests < end:
            self._explore(source, volleys, end, 1000 * seed_number + len(self.findings))
        self._look_at_services(source)

    def _explore(self, source: str, volleys: SearchStrategy[Volley], end: int, seed_number: int) -> None:
        """Send until something is found, or enough is sent; what is found is made smaller then."""
        tally = self.tallies[source]
        smallest: list[Finding] = []

        @seed(seed_number)
        @settings(
            max_examples=end - tally.requests,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )
        @given(volleys)
        def send(volley: Volley) -> None:
            if not smallest and tally.requests >= end:
                raise SkipTest("enough")  # the one word that ends it
            for found in self._findings(source, volley):
                if not smallest or found.kind == smallest[0].kind:
                    smallest[:] = [found]
                    raise FoundError(found.problem)

        try:
            send()
        except SkipTest:
            pass
        except Exception:  # hypothesis has words of its own for what happens only sometimes
            if not smallest:
                raise
            self._note(smallest[0])

    def _findings(self, source: str, volley: Volley) -> Iterator[Finding]:
        """Send a volley to all services at once, and tell what is new about its answers."""
        known = {finding.kind for finding in self.findings}
        for service, request, answers, failure in self._sent(volley):
            self.tallies[source].count(answers)
            findings = [Finding(source, service.mode, failure, request)] if failure else []
            for answer in answers:
                found = self._problems(service, request, answer)
                findings += [Finding(source, service.mode, problem, request, answer.body) for problem in found]
            yield from (finding for finding in findings if finding.kind not in known)

    def _sent(self, volley: Volley) -> list[tuple[FuzzedService, Request, list[Answer], str]]:
        """Each service and request, with the answers and what is wrong if there is none."""
        calls = [request for request in volley if request.verb is not None]
        # As in kube-scheduler, a pod that is expected on a node can be a victim there.
        self._asked_about.update(uid_asked_about(request) for request in calls if request.verb == "filter")
        outcomes = []
        for at, request in enumerate(calls):
            for service in self._services:
                service.connection(at).send(request)
        for at, request in enumerate(calls):
            for service in self._services:
                try:
                    outcomes.append((service, request, [service.connection(at).answer()], ""))
                except (HangError, ConnectionError) as error:
                    outcomes.append((service, request, [], f"{type(error).__name__}: {error}"))
        for request in volley:
            if request.verb is None:
                for service in self._services:
                    try:
                        outcomes.append((service, request, exchange(service.port, request.raw), ""))
                    except (HangError, ConnectionError) as error:
                        outcomes.append((service, request, [], f"{type(error).__name__}: {error}"))
        return outcomes

    def _look_at_services(self, source: str) -> None:
        for service in self._services:
            for problem in service.problems():
                self._note(Finding(source, service.mode, problem))

    def _problems(self, service: FuzzedService, request: Request, answer: Answer) -> Iterator[str]:
        if request.verb is not None and answer.status == 200:
            complaint = self._checker.complaint(request, answer.body)
            if complaint:
                yield f"Go cannot read the answer: {complaint}"
                return
        yield from problems(service.mode, request, answer, self._is_known)

    def _is_known(self, uid: str) -> bool:
        return uid in self._api.uids or uid in self._asked_about

    def _note(self, finding: Finding) -> None:
        if finding.kind not in {known.kind for known in self.findings}:
            self.findings.append(finding)


def _has_error(answer: Answer) -> bool:
    try:
        members = answer.decoded()
    except ValueError:
        return False  # an answer to something else than a call of a verb
    return isinstance(members, dict) and bool(members.get("Error"))
