"""The API's description: for people the page at /docs, without scripts and without files from other hosts, and for
programs /openapi.json. Each is made once: callers wait for the event loop meanwhile."""

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from extender_service.extender.wire.description import describe

# Placeholder in the page for the address of the service, which is taken from each request.
_ADDRESS = "@ADDRESS@"
_STYLE = """
:root { color-scheme: light dark; --line: #8885; --code: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: 1.5rem; }
h3 { margin-top: 2rem; }
code, pre { font: 14px/1.5 ui-monospace, monospace; background: var(--code); border-radius: 4px; }
code { padding: 0.1em 0.3em; }
pre { padding: 0.75rem 1rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 1rem 0.3rem 0; text-align: left; vertical-align: top; }
"""
# The browser may load, run, frame or send nothing, whatever the texts contain; the only style is the one above.
_HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
_ADVICE = (
    "Call it from a terminal: what a browser sends for a page is refused, since any page could bind pods. Over TLS, "
    "curl takes `--cacert`, and `--cert` and `--key` where client certificates are asked for."
)
_CODE = re.compile(r"`([^`]+)`")
# A longer default is that of a whole object; the description of its type has it.
_LONGEST_DEFAULT = 40


async def answer_docs(request: Request) -> HTMLResponse:
    """Answer with the page; its commands call the service at the address of the request."""
    address = shlex.quote(str(request.base_url).rstrip("/"))
    return HTMLResponse(_page().replace(_ADDRESS, escape(address)), headers=_HEADERS)


async def answer_description(_: Request) -> Response:
    """Answer with the OpenAPI description."""
    return Response(_description(), media_type="application/json")


@cache
def _description() -> bytes:
    return msgspec.json.encode(describe())


@cache
def _page() -> str:
    description = describe()
    info, schemas = description["info"], description["components"]["schemas"]
    verbs = {path: operations["post"] for path, operations in description["paths"].items()}
    title = f"{escape(info['title'])} {escape(info['version'])}"
    contents = [f'<a href="#{escape(path[1:])}">{escape(path)}</a>' for path in verbs] + ['<a href="#types">Types</a>']
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">',
            f'<head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>',
            f"<body>\n<h1>{title}</h1>",
            f"<p>{_text(info['summary'])}. {_text(info['description'])}</p>",
            f'<p>{", ".join(contents)}; for programs: <a href="/openapi.json">/openapi.json</a></p>',
            f"<p>{_text(_ADVICE)}</p>",
            *(_verb(path, operation) for path, operation in verbs.items()),
            '<h2 id="types">Types</h2>',
            *(_schema(name, schema) for name, schema in schemas.items()),
            "</body>\n</html>\n",
        ]
    )


def _verb(path: str, operation: Mapping[str, Any]) -> str:
    body = operation["requestBody"]["content"]["application/json"]
    command = f"curl -s {_ADDRESS}{path} -d {shlex.quote(json.dumps(body['example'], indent=2))}"
    answers = {status: answer["content"]["application/json"] for status, answer in operation["responses"].items()}
    rows = (
        [f"<code>{status}</code>", _text(answer["description"]), _type(answers[status]["schema"])]
        for status, answer in sorted(operation["responses"].items())
    )
    examples = (
        f"<p>Answer: {escape(name)}</p>\n{_block(json.dumps(example['value'], indent=2))}"
        for answer in answers.values()
        for name, example in answer.get("examples", {}).items()
    )
    return "\n".join(
        [
            f'<h2 id="{escape(path[1:])}">{escape(operation["summary"])}: <code>POST {escape(path)}</code></h2>',
            f"<p>{_text(operation['description'])}</p>",
            f"<p>The body is {_type(body['schema'])}, such as:</p>",
            _block(command),
            *examples,
            _table(("Status", "Meaning", "Body"), rows),
        ]
    )


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    rows = (
        [f"<code>{escape(field)}</code>", _type(member), _default(member)]
        for field, member in schema.get("properties", {}).items()
    )
    heading = f'<h3 id="{escape(name)}">{escape(name)}</h3>\n<p>{_text(schema["description"])}</p>'
    return heading + (_table(("Field", "Type", "Default"), rows) if schema.get("properties") else "")


def _type(schema: Mapping[str, Any]) -> str:
    """Describe in words what a JSON schema allows, as HTML; named types are links to their descriptions."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of string to {_type(schema['additionalProperties'])}"
    return escape(schema.get("type", "any value"))


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return "required"
    default = json.dumps(schema["default"])
    return f"<code>{escape(default)}</code>" if len(default) <= _LONGEST_DEFAULT else ""


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"


def _block(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
