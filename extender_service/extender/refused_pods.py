"""Pods that filter has refused lately: what is needed to decide about them again once the watch has caught up."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LruCache
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.asked_nodes import AskedNodes
from extender_service.seams import Clock

# Bytes of all refused pods together, as JSON, with the nodes that were asked about. A usual pod takes 3 KB.
MOST_BYTES = 16 << 20
_MOST_PODS = 10_000
# What the watch shows later than this after a refusal, kube-scheduler has not seen before it.
REMEMBERED_SECONDS = 15.0
# Bytes of a refusal besides the pod, the nodes and the names.
_BYTES_A_REFUSAL = 500
# Nodes that are not known yet are few, unless the watch has shown nothing at all.
_MOST_UNKNOWN = 100

_encode = msgspec.json.Encoder().encode
_pod_decoder = Decoder(Pod)


class Refusal(msgspec.Struct, gc=False):
    """A pod that was refused `at` some time, on the nodes whose rows are marked in `asked` (packed bits).

    - `unknown`: names that were asked about, and that no node had
    - `version`: that of the cluster and its nominations when it was decided about the pod last
    - `fits_at`: when the pod was first found to fit since
    - `is_withheld`: the pod was kept from preempting others, as our watch was behind
    - `late_decisions`: how many decisions about it have taken too long since
    """

    uid: str
    pod: bytes
    asked: bytes
    unknown: list[str]
    version: tuple[int, ...]
    at: float
    fits_at: float | None = None
    is_withheld: bool = False
    late_decisions: int = 0

    def read_pod(self) -> Pod:
        """Return the pod."""
        return _pod_decoder.decode(self.pod)


class RefusedPods:
    """The last refusal of each pod, within MOST_BYTES; none unless `is_kept` is set."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self.is_kept = False
        self._by_uid: LruCache[str, Refusal] = LruCache("refused pods", most_entries=_MOST_PODS, most_bytes=MOST_BYTES)

    def __len__(self) -> int:
        return len(self._by_uid)

    def __contains__(self, uid: str) -> bool:
        return uid in self._by_uid

    def version(self) -> tuple[int, ...]:
        """Return a value that differs after each change that a refusal may depend on. `Cluster.version` leaves out the
        end of a nomination."""
        return (*self._cluster.version, self._cluster.nominations.change_count)

    def note(self, pod: Pod, nodes: AskedNodes) -> None:
        """Note that a pod was just refused on these nodes."""
        if not self.is_kept:
            return
        # Whole nodes may be in no table but that of their call.
        rows = nodes.found.rows if nodes.by_name else self._cluster.nodes.rows_named(nodes.names)
        if rows is None:
            is_asked, unknown = nodes.in_question, nodes.unknown
        else:
            is_asked = np.zeros(self._cluster.nodes.size, np.bool_)
            is_asked[rows[rows >= 0]] = True
            unknown = nodes.unknown if nodes.by_name else [nodes.names[at] for at in np.flatnonzero(rows < 0).tolist()]
        self._keep(pod, is_asked, unknown)

    def note_withheld(self, pod: Pod) -> None:
        """Note that a pod was kept from preempting others, as our watch was behind."""
        if not self.is_kept:
            return
        if pod_uid(pod) not in self:
            self._keep(pod, np.zeros(0, np.bool_), [])
        refusal = self._by_uid[pod_uid(pod)]
        if refusal is not None:
            refusal.is_withheld = True

    def get(self, uid: str) -> Refusal | None:
        """Return the refusal of a pod, None if it is not kept."""
        return self._by_uid[uid]

    def forget(self, uid: str) -> None:
        """Forget a pod; nothing happens if it was not refused."""
        self._by_uid.forget(uid)

    def clear(self) -> None:
        """Forget all pods."""
        self._by_uid.clear()

    def all(self) -> list[Refusal]:
        """Return the refusals of all pods, the oldest first."""
        return list(self._by_uid.values())

    def awaits_nodes(self, refusal: Refusal | None) -> bool:
        """Return whether the pod was refused lately on nodes that are not known yet."""
        if refusal is None or not refusal.unknown or self._clock() > refusal.at + REMEMBERED_SECONDS:
            return False
        return bool((self._cluster.nodes.rows_named(refusal.unknown) < 0).any())

    def marked(self, refusal: Refusal) -> NDArray[np.bool_]:
        """Return which rows of the node table the caller asked about, those of nodes that were not known then too."""
        size = self._cluster.nodes.size
        is_asked = np.zeros(size, np.bool_)
        bits = np.unpackbits(np.frombuffer(refusal.asked, np.uint8), count=min(size, 8 * len(refusal.asked)))
        is_asked[: len(bits)] = bits
        rows = self._cluster.nodes.rows_named(refusal.unknown)
        is_asked[rows[rows >= 0]] = True
        return is_asked

    def _keep(self, pod: Pod, is_asked: NDArray[np.bool_], unknown: list[str]) -> None:
        try:
            body = _encode(pod)
        except UnicodeEncodeError:
            return  # a lone surrogate, which the API server would not have taken
        uid, asked = pod_uid(pod), np.packbits(is_asked).tobytes()
        unknown = unknown[:_MOST_UNKNOWN]
        refusal = Refusal(uid, body, asked, unknown, self.version(), self._clock())
        # What is written to grows in steps, and keeps the rest of the last one.
        size = _BYTES_A_REFUSAL + 4 * len(uid) + len(body) * 9 // 8 + len(asked)
        size += sum(100 + 4 * len(name) for name in unknown)
        self._by_uid.keep(uid, refusal, size)
