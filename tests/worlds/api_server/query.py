"""The options of a list or watch in a query, checked as metav1.ListOptions are."""

from collections.abc import Mapping

import msgspec

from tests.worlds.api_server import errors
from tests.worlds.api_server.selectors import label_selector, parse_fields

NOT_OLDER, EXACT = "NotOlderThan", "Exact"


def has_watch_list(minor: int) -> bool:
    """Whether a watch may ask for the initial events (the feature gate WatchList, on in 1.32 and from 1.34 on)."""
    return minor == 32 or minor >= 34


class ListOptions(msgspec.Struct, frozen=True):
    """A query's parameters; what is not given is empty."""

    version: str
    match: str
    limit: int
    token: str
    labels: str
    fields: str
    is_watch: bool
    allows_bookmarks: bool
    sends_initial_events: bool | None
    timeout_seconds: int | None


def list_options(query: Mapping[str, str], minor: int) -> ListOptions:
    """Return the options of a query. Raises RefusedError (400, 422)."""
    initial = query.get("sendInitialEvents")
    timeout = query.get("timeoutSeconds")
    options = ListOptions(
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=_number(query.get("limit", "") or "0"),
        token=query.get("continue", ""),
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        is_watch=_is_true(query.get("watch")),
        allows_bookmarks=_is_true(query.get("allowWatchBookmarks")),
        sends_initial_events=None if initial is None else _is_true(initial),
        timeout_seconds=None if not timeout else _number(timeout),
    )
    if (
        has_watch_list(minor)
        and options.is_watch
        and options.sends_initial_events is None
        and not options.match
        and options.version in ("", "0")
    ):
        options = msgspec.structs.replace(options, sends_initial_events=True, match=NOT_OLDER)
    label_selector(options.labels)
    parse_fields(options.fields)
    causes = _watch_causes(options, minor) if options.is_watch else _list_causes(options)
    if causes:
        raise errors.invalid("ListOptions", "meta.k8s.io", "", causes)
    if options.version and not options.version.isdecimal():
        cause = ("FieldValueInvalid", f'Invalid value: "{options.version}": strconv.ParseUint', "resourceVersion")
        raise errors.invalid("", "", "", [cause])
    return options


def _list_causes(options: ListOptions) -> list[tuple[str, str, str]]:
    texts = []
    if options.match:
        if not options.version:
            texts.append("resourceVersionMatch is forbidden unless resourceVersion is provided")
        if options.token:
            texts.append("resourceVersionMatch is forbidden when continue is provided")
        if options.match == EXACT and options.version == "0":
            texts.append('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    causes = [_forbidden(text) for text in texts]
    if options.match not in ("", NOT_OLDER, EXACT):
        text = f'Unsupported value: "{options.match}": supported values: "Exact", "NotOlderThan", ""'
        causes.append(("FieldValueNotSupported", text, "resourceVersionMatch"))
    if options.sends_initial_events is not None:
        causes.append(_forbidden("sendInitialEvents is forbidden for list", "sendInitialEvents"))
    return causes


def _watch_causes(options: ListOptions, minor: int) -> list[tuple[str, str, str]]:
    causes = []
    if options.sends_initial_events is not None:
        if options.match != NOT_OLDER:
            causes.append(_forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
        if not has_watch_list(minor):
            text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            causes.append(_forbidden(text, "sendInitialEvents"))
    if options.match:
        if options.sends_initial_events is None:
            causes.append(
                _forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
        if options.match != NOT_OLDER:
            text = f'Unsupported value: "{options.match}": supported values: "NotOlderThan"'
            causes.append(("FieldValueNotSupported", text, "resourceVersionMatch"))
        if options.token:
            causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
    return causes


def _forbidden(text: str, field: str = "resourceVersionMatch") -> tuple[str, str, str]:
    return ("FieldValueForbidden", f"Forbidden: {text}", field)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() not in ("false", "0")
