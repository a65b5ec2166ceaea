"""Request and response bodies in JSON and YAML."""

import pytest
import yaml

from conformance.objects import SIZED, Namespace, Widgets, config_map, definition, establish, version
from conformance.transcript import RecordingClient

YAML = {"Content-Type": "application/yaml"}
AS_YAML = {"Accept": "application/yaml"}

MANIFEST = b"""
# A comment, and all that YAML has for strings.
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  labels: {app: blue}
data:
  plain: text
  quoted: "1"
  folded: >-
    one
    two
  block: |
    three
    four
  yes: "no"
"""


def test_yaml_request_body(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    created = api.post(maps, MANIFEST, YAML).expect(201)
    assert created.type == "application/json"
    assert created.body["data"]["folded"] == "one two"
    assert created.body["data"]["block"] == "three\nfour\n"
    api.put(f"{maps}/a", MANIFEST.replace(b"text", b"changed"), YAML).expect(200)
    api.delete(f"{maps}/a", b"propagationPolicy: Background\n", YAML).expect(200)


def test_yaml_response_body(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    created = api.unrecorded.post(
        maps, config_map("a", {"k": "1", "text": "one\ntwo\n", "n": "007"}), AS_YAML
    )
    assert (created.code, created.type) == (201, "application/yaml")
    for path in (maps, f"{maps}/a", f"{maps}/missing"):
        read, plain = api.unrecorded.get(path, AS_YAML), api.unrecorded.get(path)
        assert (read.code, read.type) == (plain.code, "application/yaml")
        written = yaml.safe_load(read.raw)
        if path == maps:  # its version is that of the whole store, to which other tests write
            assert written["items"] == plain.body["items"] or len(written["items"]) == 1
        else:
            assert written.get("data") == plain.body.get("data")
            assert written["kind"] == plain.body["kind"]
    deleted = api.unrecorded.delete(f"{maps}/a", headers=AS_YAML).expect(200)
    assert yaml.safe_load(deleted.raw)["status"] == "Success"


NOT_YAML = {
    "not-a-mapping": b"- a\n- b\n",
    "unclosed": b"{a: ",
    "tab": b"a:\n\tb: c\n",
    "empty": b"",
    "two-documents": MANIFEST + b"---\n" + MANIFEST.replace(b"name: a", b"name: b"),
    "unquoted-number": MANIFEST.replace(b'"1"', b"1"),
}


@pytest.mark.parametrize("text", NOT_YAML.values(), ids=NOT_YAML)
def test_invalid_yaml_is_rejected(api: RecordingClient, namespace: Namespace, text: bytes) -> None:
    api.post(namespace.path("configmaps"), text, YAML)


def test_custom_resource_in_yaml(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    text = yaml.safe_dump(widgets.body("a", spec={"size": 1})).encode()
    api.post(widgets.path(), text, YAML).expect(201)
    read = api.unrecorded.get(widgets.path("a"), AS_YAML).expect(200)
    assert (read.type, yaml.safe_load(read.raw)["spec"]) == ("application/yaml", {"size": 1})


def test_json_with_charset_parameter(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, config_map("a"), {"Content-Type": "application/json; charset=utf-8"}).expect(201)
    api.post(maps, config_map("b"), {"Content-Type": ""}).expect(201)


def test_unicode_text_is_preserved(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    text = 'naïve Ünïcödé 日本語 🎉 \u0000 \u2028 <&> \\ " \t'
    created = api.post(maps, config_map("a", {"text": text}, annotations={"a": text})).expect(201)
    assert created.body["data"]["text"] == text
    assert api.get(f"{maps}/a").body["metadata"]["annotations"] == {"a": text}


def test_pretty_response_has_same_content(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    created = api.unrecorded.post(maps, config_map("a"))
    pretty = api.unrecorded.get(f"{maps}/a", pretty="true").expect(200)
    assert pretty.body == created.body
    assert b"\n  " in pretty.raw


def test_field_names_are_case_sensitive(api: RecordingClient, namespace: Namespace) -> None:
    body = {**config_map("a"), "Data": {"k": "1"}}
    assert "data" not in api.post(namespace.path("configmaps"), body).expect(201).body
