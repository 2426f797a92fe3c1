import asyncio
import base64
import hashlib
import json
import shlex
from html.parser import HTMLParser
from typing import Any

import httpx
import msgspec
import pytest

from extender_service.extender.wire.description import describe
from tests.support.clusters.extender_world import ExtenderWorld
from tests.support.objects import make_node

DESCRIPTION = describe()


class Page(HTMLParser):
    """The elements of a page: their tags, their attributes, and the texts of some."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {"pre": [], "style": [], "h3": []}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] in self.texts:
            self.texts[self.tags[-1]][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def values(self, attribute: str) -> list[str]:
        return [value or "" for name, value in self.attributes if name == attribute]

    @property
    def commands(self) -> list[list[str]]:
        """Its curl commands, as a shell splits them."""
        return [shlex.split(text) for text in self.texts["pre"] if text.startswith("curl ")]


def get(path: str = "/docs", base_url: str = "http://127.0.0.1:8888", **options: Any) -> httpx.Response:
    async def request() -> httpx.Response:
        transport = httpx.ASGITransport(ExtenderWorld(make_node("node-a")).app)
        async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
            return await client.get(path, **options)

    return asyncio.run(request())


def test_nothing_comes_from_elsewhere_and_nothing_runs() -> None:
    answer = get()
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    page = Page(answer.text)
    assert not {"script", "link", "img", "iframe", "form", "base", "object"} & set(page.tags)
    assert not page.values("src")
    assert all(target.startswith("#") or target == "/openapi.json" for target in page.values("href"))
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "style"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = dict(each.strip().split(" ", 1) for each in answer.headers["content-security-policy"].split(";"))
    (style,) = page.texts["style"]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "style-src": f"'sha256-{digest}'",
    }


def test_programs_get_the_description_which_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = get("/openapi.json")
    assert (answer.headers["content-type"], answer.json()) == ("application/json", DESCRIPTION)

    def make(*_: object, **__: object) -> None:
        raise AssertionError("it takes as long as twenty decisions")

    monkeypatch.setattr(msgspec.json, "schema_components", make)
    assert get("/openapi.json").content == answer.content


@pytest.mark.parametrize("path", ["/redoc", "/docs/oauth2-redirect"])
def test_the_frameworks_own_pages_are_not_there(path: str) -> None:
    assert get(path).status_code == 404


def test_all_verbs_and_types_are_there_and_links_lead_to_them() -> None:
    page = Page(get().text)
    targets = page.values("id")
    assert len(set(targets)) == len(targets)
    assert {link[1:] for link in page.values("href") if link.startswith("#")} <= set(targets)
    assert page.texts["h3"] == list(DESCRIPTION["components"]["schemas"])
    assert {path[1:] for path in DESCRIPTION["paths"]} < set(targets)


def test_the_commands_can_be_pasted() -> None:
    commands = Page(get().text).commands
    operations = DESCRIPTION["paths"].items()
    assert [(url, json.loads(body)) for _, _, url, _, body in commands] == [
        (f"http://127.0.0.1:8888{path}", methods["post"]["requestBody"]["content"]["application/json"]["example"])
        for path, methods in operations
    ]


def test_the_commands_call_the_service_as_the_page_was_asked_for() -> None:
    commands = Page(get(base_url="https://[::1]:9999").text).commands
    assert {command[2].rpartition("/")[0] for command in commands} == {"https://[::1]:9999"}


def test_a_host_that_is_no_name_does_nothing_to_the_page_or_a_shell() -> None:
    page = Page(get(headers={"Host": "a'$(reboot)`id`<script>.example"}).text)
    assert "script" not in page.tags
    assert [len(command) for command in page.commands] == [5, 5, 5, 5]
