"""Objects of any kind: their path, and what is kept of them."""

import msgspec
import pytest

from extender_service.kube.parsing.decoder import DecodeError
from extender_service.kube.resources.any_kind import any_kind

WIDGET = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w", "namespace": "shop", "resourceVersion": "7", "managedFields": [{"manager": "kubectl"}]},
    "spec": {"color": "red"},
}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("widgets.v1.example.com", "/apis/example.com/v1/widgets"),
        ("bars.v1beta1.a.b.c", "/apis/a.b.c/v1beta1/bars"),
        ("configmaps.v1.", "/api/v1/configmaps"),
    ],
)
def test_a_name_gives_the_path(name: str, path: str) -> None:
    assert any_kind(name, keeps_json=False).path() == path


@pytest.mark.parametrize("keeps_json", [True, False])
def test_the_json_is_kept_without_managed_fields_where_it_is_wanted(keeps_json: bool) -> None:
    resource = any_kind("widgets.v1.example.com", keeps_json=keeps_json)
    page = resource.list_decoder.decode(msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": [WIDGET]}))
    [listed] = page.items
    frame = resource.frame_decoder.decode(msgspec.json.encode({"type": "ADDED", "object": WIDGET}))
    for found in (listed, frame.object):
        assert (found.metadata.namespace, found.metadata.name, found.metadata.resource_version) == ("shop", "w", "7")
        metadata = {"name": "w", "namespace": "shop", "resourceVersion": "7"}
        kept = msgspec.json.encode({**WIDGET, "metadata": metadata}) if keeps_json else b""
        assert found.whole_json == kept


def test_an_object_that_is_nested_too_deeply_is_refused() -> None:
    deep = b'{"type":"ADDED","object":{"metadata":{},"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    with pytest.raises(DecodeError, match="nested too deeply"):
        any_kind("widgets.v1.example.com", keeps_json=True).frame_decoder.decode(deep)


def test_an_object_of_more_levels_than_are_read_is_kept_down_to_level_200() -> None:
    sent = {**WIDGET, "spec": msgspec.Raw(b"[" * 3_000 + b"]" * 3_000)}
    resource = any_kind("widgets.v1.example.com", keeps_json=True)
    found = resource.frame_decoder.decode(msgspec.json.encode({"type": "ADDED", "object": sent})).object
    levels = found.whole_json.count(b"[")
    assert found.whole_json.endswith(b'"spec":' + b"[" * levels + b"]" * levels + b"}")
    assert levels in (198, 3_000)  # 3,000 where Python reads them; the event has two levels around the 198
