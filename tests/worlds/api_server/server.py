"""One API server: takes a request, returns its answer. Synchronous and deterministic."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

import msgspec

from extender_service.config.release import OLDEST_MINOR
from tests.worlds.api_server import binding, deletion, errors, eviction, lists, reviews
from tests.worlds.api_server.discovery import discover
from tests.worlds.api_server.etcd import Etcd, Item
from tests.worlds.api_server.expiry import EventExpiry
from tests.worlds.api_server.fairness import REFUSED, Fairness
from tests.worlds.api_server.kinds import BY_PATH, PODS, Kind
from tests.worlds.api_server.messages import Answer, Delayed, Object, Request, Response, Watch
from tests.worlds.api_server.query import ListOptions, list_options
from tests.worlds.api_server.registry import RESIZE, STATUS, Registry
from tests.worlds.api_server.routing import Target, route
from tests.worlds.api_server.system_objects import create_system_objects
from tests.worlds.api_server.watch_cache import WatchCache, failed_watch
from tests.worlds.api_server.webhooks import Webhook, ask

# A read at a version that this server does not have yet waits for so long.
_FRESH_SECONDS = 3.0
# The first minor release in which pods can be resized (InPlacePodVerticalScaling is beta).
RESIZES_SINCE = 33


class ApiServer:
    """The model of a kube-apiserver. Time, randomness and what is stored enter here.

    - `clock`: returns seconds since 1970
    - `random`: draws UIDs, generated names, and how long watches last
    - `etcd`: shared by the servers of one cluster; its own if it is not given
    - `minor`: the release, 31 for Kubernetes 1.31

    It begins with the system's namespaces and priority classes.

    The owner calls `step` at `due_at` at the latest: it delivers what lags, bookmarks, and the ends of watches.

    What a world may change at any time: `allows` and `users` answer the reviews of rights and tokens, `fairness` limits
    requests, `webhooks` admit writes, `watches.lag_seconds` is how far the watch cache is behind.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        random: Random,
        *,
        etcd: Etcd | None = None,
        minor: int = OLDEST_MINOR,
    ) -> None:
        self.minor = minor
        self.etcd = etcd or Etcd(clock)
        self.registry = Registry(self.etcd, clock, random, minor)
        self.watches = WatchCache(self.etcd, clock, random)
        self.allows: reviews.Allows = lambda _: True
        self.users: Mapping[str, Object] = {}
        self.fairness: Fairness | None = None
        self.webhooks: Sequence[Webhook] = ()
        self._expiry = EventExpiry(self.etcd, clock)
        self._clock = clock
        create_system_objects(self.registry, self.etcd)

    def handle(self, request: Request) -> Answer:
        """Carry out a request and return the answer: whole, a watch, or one that comes later.

        Raises NotModelledError if the request needs what the model does not have.
        """
        seconds = 0.0 if self.fairness is None else self.fairness.take_seat(self._clock())
        if seconds is None:
            return REFUSED
        return Delayed(seconds, lambda: self._admit(request)) if seconds else self._admit(request)

    def step(self) -> None:
        """Do what is due."""
        self.etcd.step()
        self._expiry.step()
        self.watches.step()

    def due_at(self) -> float:
        """Return when `step` has something to do, in seconds since 1970."""
        return min(self.etcd.due_at(), self._expiry.due_at(), self.watches.due_at())

    def _admit(self, request: Request) -> Answer:
        """Ask the webhooks about a write, then carry it out."""
        seconds, refusal = (0.0, None) if request.method == "GET" else ask(self.webhooks, request)

        def proceed() -> Answer:
            if refusal is not None:
                return refusal.response()
            return self._answer(request, self._clock() + _FRESH_SECONDS)

        return Delayed(seconds, proceed) if seconds else proceed()

    def _answer(self, request: Request, wait_until: float) -> Answer:
        try:
            return self._handle(request, wait_until)
        except errors.RefusedError as refusal:
            return refusal.response()

    def _handle(self, request: Request, wait_until: float) -> Answer:
        if (found := discover(request.path, self.minor)) is not None:
            return _response(200, msgspec.json.encode(found))
        target = route(request.path)
        if target.review:
            return self._review(target, request)
        kind = BY_PATH.get((target.group, target.version, target.plural))
        if kind is None or (target.namespace and not kind.is_namespaced):
            raise errors.path_not_found()
        if request.method == "GET":
            return self._read(kind, target, request, wait_until)
        return self._write(kind, target, request)

    def _review(self, target: Target, request: Request) -> Response:
        if request.method != "POST":
            raise errors.method_not_allowed()
        value = reviews.review(
            target.review, target.group, _decode(request.body, target.review), self.allows, self.users
        )
        return _response(201, msgspec.json.encode(value))

    def _read(self, kind: Kind, target: Target, request: Request, wait_until: float) -> Answer:
        if target.name:
            if target.subresource and not self._has_part(kind, target.subresource):
                raise errors.method_not_allowed()
            return self._get(kind, target, request, wait_until)
        options = list_options(request.query, self.minor)
        lists.matcher(kind, options)  # a wrong selector is refused whatever the version
        if options.is_watch:
            return self._watch(kind, target, options, request, wait_until)
        return self._list(kind, target, options, request, wait_until)

    def _watch(
        self, kind: Kind, target: Target, options: ListOptions, request: Request, wait_until: float
    ) -> Watch | Delayed:
        if options.sends_initial_events:
            try:
                if delay := self._wait(options.version, request, wait_until):
                    return delay
            except errors.RefusedError as refusal:
                return failed_watch(refusal)
        return self.watches.open(kind, target.namespace, options)

    def _list(
        self, kind: Kind, target: Target, options: ListOptions, request: Request, wait_until: float
    ) -> Response | Delayed:
        wanted = lists.wanted_by(kind, target.namespace, options, self.minor)
        if not wanted.of_etcd:
            if delay := self._wait(str(wanted.version), request, wait_until):
                return delay
        elif wanted.version > self.etcd.revision:
            if wanted.is_exact and self.minor < lists.EXACT_FROM_CACHE_SINCE:
                raise errors.future_revision()
            raise errors.too_large_version(wanted.version, self.etcd.revision)
        body = lists.read(self.etcd, kind, target.namespace, options, wanted, self.watches.revision)
        return _response(200, body)

    def _get(self, kind: Kind, target: Target, request: Request, wait_until: float) -> Answer:
        version = request.query.get("resourceVersion", "")
        if not version:
            return _object(200, kind, self.registry.get(kind, target.namespace, target.name))
        if not version.isdecimal():
            raise errors.bad_request(f'invalid resource version "{version}"')
        if delay := self._wait(version, request, wait_until):
            return delay
        item = self.etcd.item_at(kind, target.key, self.watches.revision)
        if item is None:
            raise errors.not_found(kind, target.name)
        return _object(200, kind, item)

    def _wait(self, version: str, request: Request, wait_until: float) -> Delayed | None:
        """Return a delay if the watch cache has not reached a version; raises RefusedError once that takes too long."""
        if version in ("", "0") or int(version) <= self.watches.revision:
            return None
        now = self._clock()
        if now >= wait_until:
            raise errors.too_large_version(int(version), self.watches.revision, retry_seconds=1)

        def proceed() -> Answer:
            self.step()
            return self._answer(request, wait_until)

        return Delayed(max(0.0, min(self.watches.reaches_at(int(version)), wait_until) - now), proceed)

    def _write(self, kind: Kind, target: Target, request: Request) -> Response:
        is_dry_run = request.query.get("dryRun") == "All"
        manager = _manager(request)
        if request.method == "POST" and target.subresource in ("binding", "eviction") and kind is PODS:
            return self._post_to_pod(target, request, dry_run=is_dry_run)
        if target.subresource and not self._has_part(kind, target.subresource):
            raise errors.path_not_found()
        match request.method:
            case "POST" if not target.name:
                value = _typed(kind, _decode(request.body, kind.name))
                item = self.registry.create(kind, target.namespace, value, manager=manager, dry_run=is_dry_run)
                return _object(201, kind, item)
            case "PUT" if target.name:
                value = _typed(kind, _decode(request.body, kind.name))
                item, is_new = self.registry.replace(
                    kind,
                    target.namespace,
                    target.name,
                    value,
                    subresource=target.subresource,
                    manager=manager,
                    dry_run=is_dry_run,
                )
                return _object(201 if is_new else 200, kind, item)
            case "PATCH" if target.name:
                content_type = request.headers.get("content-type", "")
                item = self.registry.patch(
                    kind,
                    target.namespace,
                    target.name,
                    content_type,
                    request.body,
                    subresource=target.subresource,
                    manager=manager,
                    dry_run=is_dry_run,
                )
                return _object(200, kind, item)
            case "DELETE" if target.name and not target.subresource:
                return self._delete(kind, target, request)
            case _:
                raise errors.method_not_allowed()

    def _has_part(self, kind: Kind, subresource: str) -> bool:
        """Return whether objects of a kind can be read and changed through a subresource."""
        if subresource == RESIZE:
            return kind is PODS and self.minor >= RESIZES_SINCE
        return subresource == STATUS and kind.has_status

    def _post_to_pod(self, target: Target, request: Request, *, dry_run: bool) -> Response:
        value = _decode(request.body, target.subresource.capitalize())
        if target.subresource == "binding":
            answer = binding.bind(self.registry, target.namespace, target.name, value, self.minor, dry_run=dry_run)
        else:
            answer = eviction.evict(self.registry, target.namespace, target.name, value, self.minor, dry_run=dry_run)
        return _response(201, msgspec.json.encode(answer))

    def _delete(self, kind: Kind, target: Target, request: Request) -> Response:
        options = _decode(request.body, "DeleteOptions") if request.body else {}
        if "gracePeriodSeconds" in request.query:
            options.setdefault("gracePeriodSeconds", int(request.query["gracePeriodSeconds"]))
        if "propagationPolicy" in request.query:
            options.setdefault("propagationPolicy", request.query["propagationPolicy"])
        if request.query.get("dryRun") == "All":
            options["dryRun"] = ["All"]
        item, is_gone = deletion.delete(self.registry, kind, target.namespace, target.name, options)
        if kind.returns_deleted or not is_gone:
            return _object(200, kind, item)
        details = {**errors.about(kind, target.name), "uid": item.value["metadata"]["uid"]}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return _response(200, msgspec.json.encode(status))


def _manager(request: Request) -> str:
    """Return the name of a client in managedFields."""
    return request.query.get("fieldManager") or request.headers.get("user-agent", "").partition("/")[0]


def _decode(body: bytes, kind: str) -> Object:
    try:
        value = msgspec.json.decode(body)
        if isinstance(value, dict):
            return value
        why = "it is not an object"
    except msgspec.DecodeError as error:
        why = errors.json_error(error)
    shown = body[:32].decode(errors="replace")
    text = f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind"
    raise errors.bad_request(f"{text}; json parse error: {why} ({shown})")


def _typed(kind: Kind, value: Object) -> Object:
    """Return the object without its type, if that is the kind's. Raises RefusedError (400)."""
    name, version = value.pop("kind", kind.name), value.pop("apiVersion", kind.api_version)
    if name != kind.name or version != kind.api_version:
        package = kind.group.partition(".")[0] or "core"
        why = f"converting (v1.{name}) to ({package}.{kind.name}): unknown conversion"
        text = f'{name} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind.name}: {why}'
        raise errors.bad_request(text)
    return value


def _object(status: int, kind: Kind, item: Item) -> Response:
    head = f'{{"kind":"{kind.name}","apiVersion":"{kind.api_version}",'.encode()
    return _response(status, head + item.body[1:])


def _response(status: int, body: bytes) -> Response:
    return Response(status, body)
