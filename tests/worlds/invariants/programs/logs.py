"""What holds of what programs log, of how they end, and of errors that nothing reads."""

import gc
import re
import signal
from typing import Final

from tests.worlds.faults.cluster import CLUSTER_FAULTS
from tests.worlds.invariants.observed import Observed
from tests.worlds.settings.plugin_moods import BAD_MOOD

# The end of a refusal: the object has changed or gone, or another one has its name by now.
_CHANGED: Final = r".*(\((404|409)[ )]|field is immutable \(422 |\[metadata\.uid: .* field is immutable, .*\(422 )"
# What a program may log as a warning or an error, and when it does.
_EXPECTED: Final = (
    (r"WARNING any client that reaches this address can bind pods", "worlds have no TLS"),
    (rf"WARNING cannot acquire or renew the lease{_CHANGED}", "another replica wrote"),
    (rf"ERROR cannot update a pod{_CHANGED}", "the pod has changed or is gone"),
    (rf"ERROR preemption failed .*ApiError\({_CHANGED}", "the same of its victims"),
    (
        r"WARNING a pod preempts no others error=pod \S+ is not as the caller has sent it ",
        "people have changed its labels, which the watch of the replica has not shown yet",
    ),
    (r"WARNING cannot evaluate the nominated node", "an extender does not answer, or a plugin fails"),
    (rf"(WARNING|ERROR) .*{BAD_MOOD}", "a user's plugin of the world fails"),
    (r"WARNING a plugin of --plugin does nothing, as no profile .* class=tests\.worlds\.", "the settings turn it off"),
    (r"ERROR reach_for must return a Reach ", "so does a user's plugin of the world"),
    (r"WARNING the cache differs: ", "people ask for a comparison, and the watch is behind the list"),
    (r"WARNING an extender gives reasons for nodes that it was not asked about", "so does the one of the world"),
    (r"WARNING kube-scheduler sends whole nodes", "so it is set up"),
    (r"WARNING pods (are refused for|have) a field that", "pods claim devices"),
    (
        rf"WARNING failed error=({_CHANGED}|.*(does not exist|is another one now|does not count there any more))",
        "`serve` could not bind: an object has changed, or the pod has gone",
    ),
    (
        r"WARNING failed error=running PreBind plugin \S+ binding volumes: (provisioning failed|pv \S+ node affinity)",
        "the provisioner failed, or it made the volume for the node of the attempt before",
    ),
    (
        r"WARNING failed error=running PreBind plugin \S+ binding volumes: context deadline exceeded: ",
        "the provisioner takes longer than bindTimeoutSeconds",
    ),
    (
        r"WARNING failed error=running PreBind plugin \S+ binding volumes: failed to get node \S+: node \S+ not found",
        "the node has gone",
    ),
    (
        r"WARNING failed error=binding \S+ to \S+: the pod was asked about on other nodes .*verb=bind$",
        "PreBind took longer than the replica waits, which has asked again without that node",
    ),
    (r"WARNING failed error=no Bind plugin took the pod ", "so it is set up"),
    (
        r"WARNING failed error=waiting on Permit plugin .*: too few of its app .*verb=bind$",
        "a user's plugin refuses it",
    ),
    (r"WARNING failed error=extender-service places no pods now: ", "the scheduler on its machine does not lead yet"),
    (
        r"WARNING failed error=(running PreBind|waiting on [Pp]ermit).*: preempted( by \w+)? .*verb=bind$",
        "a binding waited in Permit or PreBind when its pod was to make room",
    ),
    (r"WARNING failed error=preempted by DefaultPreemption .*verb=bind$", "the same, and PreBind was done already"),
    (r"WARNING failed error=waiting on Permit plugin .*: its place was given up .*verb=bind$", "the pod has gone"),
    (
        r"WARNING failed error=pod \S+ has no place on \S+ any more, and does not fit there: .*verb=bind$",
        "`serve` has dropped the place for another pod, has restarted, or did not know the pod while etcd was restored",
    ),
)
# The same, only while there are faults, and until the last one has been over for _SETTLES_SECONDS. Faults of the
# cluster itself explain none of that: to programs, they look like what people do.
_EXPECTED_WITH_FAULTS: Final = (
    (r"WARNING [a-z]+: .*; next (list|watch) in", "a list or watch broke, or was refused"),
    (r"WARNING [a-z]+: .*; the watch goes on, next list in", "the API server does not say at which version it is"),
    (r"WARNING waiting for the release of the API server", "it does not answer"),
    (r"WARNING not ready, and all calls fail, until the cluster can be read", "it does not answer"),
    (r"WARNING cannot find out whether pods may be bound", "it does not answer"),
    (r"WARNING cannot find out whether a pod is bound", "it does not answer"),
    (r"WARNING cannot (acquire or renew|release) the (leader )?lease", "it does not answer"),
    (r"WARNING an event (of the lease )?could not be written", "it does not answer, or the lease is lost"),
    (r"WARNING stopped before all events were written", "it does not answer"),
    (r"WARNING cannot compare the cache with the API server", "it does not answer"),
    (r"WARNING a kind of a plugin's retry_on cannot be listed", "it does not answer"),
    (r"ERROR lost the leader lease", "the replica was frozen or cut off"),
    (
        r"ERROR cannot update a pod",
        "the lease is lost, the API server does not answer, or the pod was bound, which the watch has not shown yet",
    ),
    (r"ERROR preemption failed .*(Api|Unreachable|Refused|Silent|Doubt|Kube|Timeout)Error\(", "the same of victims"),
    (r"WARNING a pod that was to be bound is not", "the API server did not answer the binding, and did not do it"),
    (r"WARNING hanging up on calls that have not finished", "`serve` ends while it is asked"),
    (r"WARNING failed error=.*(\(\d{3}[ )]|http://)", "`serve` could not bind: the API server does not answer"),
    (
        r"WARNING failed error=binding \S+ to \S+: the lease has gone to another scheduler .*verb=bind$",
        "a binding waited in Permit or PreBind when the scheduler that asked for it lost the lease",
    ),
    (
        r"WARNING failed error=(binding|running PreBind plugin) .*: not sent: (the lease|who holds the lease) .*=bind$",
        "a binding waits in Permit or PreBind, and before its next write `serve` loses the lease, or cannot read it",
    ),
    (r"WARNING failed error=the caller hung up before its request was complete ", "a connection broke"),
    (r"WARNING failed error=extender-service does not know the cluster well enough", "the API server does not answer"),
    (r"WARNING a refused pod fits now, but cannot be changed", "the API server does not answer, or refuses"),
    (
        r"WARNING failed error=pod \S+ is being bound .*verb=filter$",
        "a replica did not wait for the answer to a binding, or another one, that leads by now, has the pod bound",
    ),
    (r"WARNING failed error=.*: the time for this decision is over ", "`serve` was frozen while it was asked"),
    (r"WARNING failed error=pod \S+ was asked about again in the meantime ", "`serve` was late, or a replica new"),
    (r"WARNING failed error=binding \S+ to \S+: extender-service was stopped .*verb=bind$", "`serve` ends meanwhile"),
    (
        r"WARNING failed error=pod \S+ may be bound already to \S+ .*verb=filter$",
        "the API server answers neither a binding nor a read of the pod, which is now asked about without that node",
    ),
    (
        r"WARNING failed error=pod \S+ is already bound to \S+ .*verb=(bind|filter)$",
        "the replica got no answer to the call that bound the pod, or another made it, and its watch lags",
    ),
)
# The same, only after etcd was restored, and for _SETTLES_SECONDS.
_EXPECTED_AFTER_RESTORE: Final = (
    (
        r"WARNING failed error=running PreBind plugin \S+ binding volumes: .* could not find v1\.PersistentVolumeClaim",
        "etcd does not have the claim any more",
    ),
    (
        r"WARNING failed error=running Reserve plugin \S+ pod has unbound immediate PersistentVolumeClaims .*=bind$",
        "etcd has the claim as it was before its volume",
    ),
    (
        r"ERROR a pod that is in flight was queued once more, and is dropped",
        "a list shows as unbound what the watch has shown bound before its attempt had ended",
    ),
    (
        r"WARNING failed error=pod \S+ is no longer bound to \S+: etcd was restored .*verb=bind$",
        "the replica's watch shows that already, that of `serve` does not",
    ),
)
# What a fault has cut silently may be an idle connection, used within 60 s, or the watch of a kind that seldom changes,
# which misses its end within 85 s.
_SETTLES_SECONDS: Final = 100.0
# The API server calls the request itself wrong: no fault explains that. It answers so, too, to what is meant for a pod
# whose name another pod has by now, and since 1.35 to the nomination of a pod that is bound already.
_WRONG_REQUEST: Final = re.compile(
    r"\((400|404 NotFound: the server could not find|405|415) "
    r"|(?<!field is immutable )(?<!on pods that are already bound to a node )(?<!are already bound to a node\] )\(422 "
)
_EXPECTED_LINES: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in _EXPECTED))
_WITH_FAULTS: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in _EXPECTED_WITH_FAULTS))
_AFTER_RESTORE: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in _EXPECTED_AFTER_RESTORE))
_KINDS_OF_CLUSTER: Final = {kind.name for kind in CLUSTER_FAULTS}
_LEVELS: Final = ("WARNING ", "ERROR ", "CRITICAL ")
_SIGTERM: Final = f"gets signal {signal.SIGTERM}"
_COMPARES: Final = "INFO compared the cache with the API server "
_DIFFERS: Final = "WARNING the cache differs: "
_MOST_COMPARISONS: Final = 2
# How a program ends that fails, except by LeaseLostError alone.
_FAILS: Final = re.compile(r"fails: (?!(?:\w*ExceptionGroup\()*LeaseLostError\(\)\)*$)")


class NothingUnexpectedLogged:
    """No program logs an error or a warning, except those that a fault or the world's own setup explains (_EXPECTED),
    some of them only as long as there are faults (_EXPECTED_WITH_FAULTS), or after etcd was restored
    (_EXPECTED_AFTER_RESTORE). With faults, `serve` may refuse to bind a pod that is bound elsewhere, or to choose
    another node for it: a replica that got no answer in time asks again until its own watch shows the pod bound. So
    does kube-scheduler (handleSchedulingFailure: "In the case of extender, the pod may have been bound successfully").
    And it may not choose a node for a pod while it is not known whether an earlier binding, to a node that the replica
    does not ask about any more, was carried out: that would bind the pod twice. So the replica tries again.

    An answer of the API server that calls a request wrong (400, 405, 415 or 422) is never expected, with two
    exceptions. It may say that a field is immutable: the UID of a pod that was made again under its name. And with
    faults, it may refuse to nominate a pod that is bound: `serve` has bound the pod after the replica had waited for
    the answer in vain. Until its own watch shows that, the replica chooses another node, and nominates the pod for that
    before it waits for Permit or PreBind. So does kube-scheduler since 1.35, which logs the refusal and goes on
    (bindingCycle: "it's not critical enough to stop binding cycles here").
    """

    name = "nothing unexpected logged"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._restored_at: list[float] = []
        observed.model.etcd.on_restore.append(lambda: self._restored_at.append(observed.now))
        has_faults = any(fault.kind not in _KINDS_OF_CLUSTER for fault in observed.faults)
        self._settled_at = observed.calm_from + _SETTLES_SECONDS if has_faults else 0.0

    def at_end(self) -> None:
        """Look at all lines of the history."""
        for line in self._observed.world.trace.lines:
            text = line.partition(": ")[2]
            if text.startswith(_LEVELS):
                at, _, what = line.split(" ", 2)
                if not self._is_expected(text, float(at)) or _WRONG_REQUEST.search(text):
                    self._observed.violated(self, what, at=at)

    def _is_expected(self, text: str, at: float) -> bool:
        if _EXPECTED_LINES.match(text) or (at < self._settled_at and _WITH_FAULTS.match(text)):
            return True
        is_restored = any(restored <= at < restored + _SETTLES_SECONDS for restored in self._restored_at)
        return is_restored and _AFTER_RESTORE.match(text) is not None


class DifferencesEnd:
    """Where people ask for comparisons of the cache with the API server, no program logs the same difference at three
    in a row, of which the last comes more than 100 s after the first: no watch is behind for so long.

    A row begins again while the cache of an API server is up to a minute old: what comes and goes, such as a device,
    may look the same then at each comparison.
    """

    name = "differences end"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    def at_end(self) -> None:
        """Look at all comparisons in the history."""
        # What each program logged at its last comparison, and at the one before: since when, and how often in a row.
        before: dict[str, dict[str, tuple[float, int]]] = {}
        now: dict[str, dict[str, tuple[float, int]]] = {}
        for line in self._observed.world.trace.lines:
            at, _, what = line.split(" ", 2)
            who, _, text = what.partition(": ")
            if text == "starts":
                now[who] = {}
            elif text.startswith(_COMPARES):
                before[who], now[who] = {} if self._is_stale(float(at)) else now.get(who, {}), {}
            elif text.startswith(_DIFFERS):
                since, count = before[who].get(text, (float(at), 0))
                now[who][text] = since, count + 1
                if count >= _MOST_COMPARISONS and float(at) - since > _SETTLES_SECONDS:
                    self._observed.violated(self, f"{what}, as at {count} comparisons before", at=at)

    def _is_stale(self, at: float) -> bool:
        return any(fault.kind == "stale-cache" and fault.at <= at < fault.until for fault in self._observed.faults)


class ProgramsRunOn:
    """A program ends only because it is killed, gets SIGTERM, or has lost the leader lease, and then for nothing else.

    It is started again then, as the kubelet does. So without this rule, one that fails would break no other.
    """

    name = "programs run on"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    def at_end(self) -> None:
        """Look at all ends in the history."""
        names = {program.name for program in self._observed.programs}
        asked_to_end: set[str] = set()
        for line in self._observed.world.trace.lines:
            at, _, what = line.split(" ", 2)
            who, _, text = what.partition(": ")
            if who not in names:
                continue
            if text == "starts":
                asked_to_end.discard(who)
            elif text == _SIGTERM:
                asked_to_end.add(who)
            elif (text == "exits" and who not in asked_to_end) or _FAILS.match(text):
                self._observed.violated(self, what, at=at)


class EveryErrorRead:
    """No task and no future fails without something that reads its error, and no callback of an event loop fails."""

    name = "every error read"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    def at_end(self) -> None:
        """Let what nothing refers to go, which is when asyncio reports errors that were not read."""
        loops = [*self._observed.world.loops()]
        if any(loop.has_unread_error() for loop in loops):
            gc.unfreeze()  # the product freezes what there is once it knows the cluster; of that, nothing would go
        gc.collect()
        for loop in loops:
            for context in loop.failures:
                error = context.get("exception")
                self._observed.violated(self, f"{loop.name}: {context.get('message')} {error!r}")
