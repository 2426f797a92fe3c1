"""The Job controller: pods until enough of them have succeeded."""

from typing import Final

from tests.worlds.actors.client import ActorClient
from tests.worlds.actors.reconciler import Reconciler
from tests.worlds.api_server.objects.timestamps import rfc3339
from tests.worlds.controllers.owned_pods import EXPECTED_SECONDS, Object, OwnedPods
from tests.worlds.controllers.shared_views import SharedViews

# After a pod failed, the next one is created so much later, and twice as much for each more.
_BACKOFF_SECONDS: Final = 10.0


class JobController:
    """Counts the pods that are there; it uses no finalizers, so a pod that is deleted is not counted."""

    def __init__(self, client: ActorClient, views: SharedViews) -> None:
        self._client = client
        self._jobs = views.of("jobs")
        self._reconciler = Reconciler(client, self._reconcile)
        self._jobs.on_change.append(lambda key, before, after: self._reconciler.add(key))
        self._pods = OwnedPods(client, views.of("pods"), "Job", "batch/v1", self._reconciler.add)
        self._failed_at: dict[str, tuple[int, float]] = {}

    async def _reconcile(self, key: str) -> None:
        job = self._jobs.objects.get(key)
        if job is None or "deletionTimestamp" in job["metadata"] or job.get("status", {}).get("conditions"):
            return
        phases = [pod["status"].get("phase") for pod in self._pods.of(job)]
        succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
        spec = job["spec"]
        active = self._pods.active(job)
        end = ""
        if failed > spec["backoffLimit"]:
            end = "Failed"
        elif succeeded >= spec.get("completions", 1):
            end = "Complete"
        if self._pods.shows_all(job):
            wanted = 0 if end else min(spec["parallelism"], spec.get("completions", 1) - succeeded)
            for pod in active[wanted:]:
                await self._pods.delete(job, pod)
            if seconds := self._seconds_to_wait(key, failed):
                self._reconciler.add(key, seconds)
            else:
                self._reconciler.add(key, EXPECTED_SECONDS + 1.0)
                for _ in range(wanted - len(active)):
                    await self._pods.create(job, spec["template"])
        await self._report(key, job, {"active": len(active), "succeeded": succeeded, "failed": failed}, end)

    def _seconds_to_wait(self, key: str, failed: int) -> float:
        now = self._client.world.timeline.now
        if failed > self._failed_at.get(key, (0, 0.0))[0]:
            self._failed_at[key] = (failed, now)
        counted, at = self._failed_at.get(key, (0, now))
        return max(0.0, at + _BACKOFF_SECONDS * 2.0 ** (counted - 1) - now) if counted else 0.0

    async def _report(self, key: str, job: Object, counts: dict[str, int], end: str) -> None:
        status: Object = dict(counts)
        if end:
            now = rfc3339(self._client.clocks.wall())
            status["conditions"] = [{"type": end, "status": "True", "lastTransitionTime": now}]
        if status.items() <= job.get("status", {}).items():
            return
        namespace, _, name = key.partition("/")
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}/status"
        await self._client.ask("PATCH", path, {"status": status})
