"""A thin client of the API server for tests: many objects at once, as plain dicts.

It is not the service's own client, so that a test's view of the cluster does not depend on what it tests.
"""

import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from tests.e2e.support.objects import Object

T = TypeVar("T")

CONCURRENT_REQUESTS = 16
_CONNECT_RETRIES = 3
# What admission says of a class that it does not know, and how long that may be so of one that was just created.
_NO_CLASS, _CLASS_SECONDS = "no PriorityClass with name", 5.0


class APIError(Exception):
    """The API server answered with an error."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"{response.request.method} {response.request.url.path}: {response.text}")
        self.status_code = response.status_code


class API:
    """Creates, reads, lists, patches and deletes objects of any kind that the API server knows.

    Methods that take several objects send them concurrently, in no particular order, and return the answers in the
    order given. Every method raises APIError where the API server refuses, and httpx's TransportError where it cannot
    be reached. An object only needs `apiVersion`, `kind` and `metadata` to be found again.
    """

    def __init__(self, url: str, ca: str, token: str) -> None:
        """`ca` is PEM text."""
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=30.0,
            # A TLS handshake on a busy machine fails once in some hundred thousand.
            transport=httpx.HTTPTransport(
                verify=ssl.create_default_context(cadata=ca),
                limits=httpx.Limits(max_connections=CONCURRENT_REQUESTS),
                retries=_CONNECT_RETRIES,
                trust_env=False,
            ),
        )
        self._resources_of = cache(self._discover)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._http.close()

    def create(self, *objects: Object) -> list[Object]:
        """Create them. A node keeps the status that it comes with; a pod starts Pending (patch its `status`)."""
        return self._all(self._create, objects)

    def get(self, kind: str, name: str, *, namespace: str = "", api_version: str = "v1") -> Object:
        """Read one object."""
        return self.request("GET", f"{self.path(kind, namespace, api_version)}/{name}")

    def list_all(
        self,
        kind: str,
        *,
        namespace: str = "",
        api_version: str = "v1",
        label_selector: str = "",
        field_selector: str = "",
    ) -> list[Object]:
        """List a kind, in all namespaces if none is given."""
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        found = self.request("GET", self.path(kind, namespace, api_version), parameters=selectors)
        return [{"apiVersion": api_version, "kind": kind, **item} for item in found["items"]]

    def patch(self, *objects: Object, patch: Mapping[str, Any], subresource: str = "") -> list[Object]:
        """Apply the same JSON merge patch (RFC 7386: lists are replaced whole) to each, or to its subresource."""
        suffix = f"/{subresource}" if subresource else ""
        return self._all(lambda found: self.request("PATCH", self.object_path(found) + suffix, patch), objects)

    def delete(self, *objects: Object) -> None:
        """Delete them at once, with a grace period of 0."""
        self._all(lambda found: self.request("DELETE", self.object_path(found), {"gracePeriodSeconds": 0}), objects)

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        parameters: Mapping[str, str] | None = None,
        *,
        user: str = "",
    ) -> Object:
        """Send one request, for what has no method of its own: a Binding, an Eviction, a TokenRequest. `user` is whom
        to impersonate."""
        headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        if user:
            headers["Impersonate-User"] = user
        response = self._http.request(method, path, json=body, params=parameters, headers=headers)
        if response.is_error:
            raise APIError(response)
        answer: Object = response.json()
        return answer

    def is_ready(self) -> bool:
        """Whether /readyz says ok; False where nobody listens."""
        try:
            return self._http.get("/readyz", timeout=2.0).is_success
        except httpx.TransportError:
            return False

    def path(self, kind: str, namespace: str = "", api_version: str = "v1") -> str:
        """Where a kind is listed."""
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{scope}/{self._resources_of(root)[kind]}"

    def object_path(self, found: Object) -> str:
        """Where an object is."""
        return f"{self._collection_path(found)}/{found['metadata']['name']}"

    def _create(self, wanted: Object) -> Object:
        """Create one. The API server's admission knows a PriorityClass a moment after it was created."""
        deadline = time.monotonic() + _CLASS_SECONDS
        while True:
            try:
                return self.request("POST", self._collection_path(wanted), wanted)
            except APIError as error:
                if _NO_CLASS not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _collection_path(self, found: Object) -> str:
        return self.path(found["kind"], found["metadata"].get("namespace", ""), found["apiVersion"])

    def _discover(self, root: str) -> dict[str, str]:
        """The plural resource name of each kind of an API group version, without subresources."""
        resources = self.request("GET", root)["resources"]
        return {resource["kind"]: resource["name"] for resource in resources if "/" not in resource["name"]}

    def _all(self, call: Callable[[Object], T], objects: tuple[Object, ...]) -> list[T]:
        with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
            return [*pool.map(call, objects)]
