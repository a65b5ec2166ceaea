"""Invalid requests get a Status, and the server stays healthy."""

import http.client

import pytest

from conformance.client import Access, Client
from conformance.objects import SIZED, Namespace, Widgets, config_map, definition, establish, version
from conformance.transcript import RecordingClient

MALFORMED = {
    "cut": b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name"',
    "text": b"hello",
    "empty": b"",
    "null": b"null",
    "trailing": b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}} more',
    "single-quotes": b"{'apiVersion': 'v1'}",
    "not-utf8": b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "\xff\xfe"}}',
    "binary": bytes(range(256)),
    "deep": b'{"data": ' + b"[" * 9000 + b"]" * 9000 + b"}",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_malformed_json_is_rejected(api: RecordingClient, namespace: Namespace, text: bytes) -> None:
    assert 400 <= api.post(namespace.path("configmaps"), text).code < 500 or text == MALFORMED["trailing"]
    api.unrecorded.get(namespace.path("configmaps")).expect(200)


def test_last_duplicate_json_key_counts(api: RecordingClient, namespace: Namespace) -> None:
    text = (
        b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1", "k": "2"}}'
    )
    assert api.post(namespace.path("configmaps"), text).expect(201).body["data"] == {"k": "2"}


@pytest.mark.parametrize(
    "content", ["text/plain", "application/xml", "application/x-www-form-urlencoded", "nonsense"],
    ids=["text", "xml", "form", "nonsense"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_unsupported_content_type_is_rejected(
    api: RecordingClient, namespace: Namespace, content: str, method: str
) -> None:
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a")).expect(201)
    at = maps if method == "POST" else f"{maps}/a"
    api.request(method, at, config_map("a"), {"Content-Type": content}).expect(415)


UNKNOWN = [
    "/api/v2", "/apis/nothing.example.com", "/apis/nothing.example.com/v1", "/apis/apps/v9",
    "/apis/apps/v9/deployments", "/api/v1/nothing", "/api/v1/namespaces/default/nothing",
    "/api/v1/namespaces/default/nothing/a", "/api/v1/namespaces/default/configmaps/a/nothing",
    "/api/v1/namespaces/default/pods/a/nothing", "/apis/apps/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/nodes", "/api/v1/configmaps/a",
]  # fmt: skip


@pytest.mark.parametrize("path", UNKNOWN, ids=[path.strip("/").replace("/", ".") for path in UNKNOWN])
def test_unknown_resource_path_is_not_found(api: RecordingClient, path: str) -> None:
    api.get(path).expect(404)


@pytest.mark.parametrize("path", ["/nothing", "/api/v1x", "/etc/passwd"])
def test_unknown_root_path_is_not_found(api: RecordingClient, path: str) -> None:
    api.unrecorded.get(path).expect(404)


METHODS = {
    "put-collection": ("PUT", "/api/v1/namespaces/default/configmaps"),
    "patch-collection": ("PATCH", "/api/v1/namespaces/default/configmaps"),
    "post-object": ("POST", "/api/v1/namespaces/default/configmaps/a"),
    "post-status": ("POST", "/api/v1/namespaces/default/pods/a/status"),
    "delete-status": ("DELETE", "/api/v1/namespaces/default/pods/a/status"),
    "delete-all-maps": ("DELETE", "/api/v1/configmaps"),
    "post-all-maps": ("POST", "/api/v1/configmaps"),
    "get-binding": ("GET", "/api/v1/namespaces/default/pods/a/binding"),
    "delete-scale": ("DELETE", "/apis/apps/v1/namespaces/default/deployments/a/scale"),
    "post-discovery": ("POST", "/api/v1"),
    "unknown-method": ("BREW", "/api/v1/namespaces/default/configmaps"),
}


@pytest.mark.parametrize(("method", "path"), METHODS.values(), ids=METHODS)
def test_unsupported_method_is_rejected(api: RecordingClient, method: str, path: str) -> None:
    body = config_map("a") if method in ("POST", "PUT", "PATCH") else None
    assert api.request(method, path, body, {"Content-Type": "application/json"}).code in (404, 405)


NAMES = {
    "dots": "..", "encoded-dots": "%2e%2e", "encoded-slash": "a%2Fb", "dot": ".", "percent": "%25",
    "space": "a%20b", "null": "%00", "uppercase": "ABC", "unicode": "%C3%A9", "long": "x" * 300,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_invalid_name_in_path_is_rejected(
    api: RecordingClient, namespace: Namespace, name: str, method: str
) -> None:
    """Above all, the path must not lead to another object."""
    maps = namespace.path("configmaps")
    api.unrecorded.post(maps, config_map("a")).expect(201)
    api.request(method, f"{maps}/{name}")
    assert api.unrecorded.get(maps).names == ["a"]
    api.unrecorded.get(f"/api/v1/namespaces/{namespace.name}").expect(200)


def test_too_large_body_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    api.post(maps, b" " * (3 * 1024 * 1024 + 1)).expect(413)
    api.unrecorded.post(maps, config_map("a")).expect(201)
    api.put(f"{maps}/a", b" " * (3 * 1024 * 1024 + 1)).expect(413)
    api.patch(f"{maps}/a", b" " * (3 * 1024 * 1024 + 1)).expect(413)
    api.delete(f"{maps}/a", b" " * (3 * 1024 * 1024 + 1)).expect(413)
    api.get(f"{maps}/a").expect(200)


def test_too_large_data_is_rejected(api: RecordingClient, namespace: Namespace) -> None:
    """The request is below the limit, but the data of one object is limited to 1 MiB."""
    maps, secrets = namespace.path("configmaps"), namespace.path("secrets")
    fits, exceeds = "x" * (1024 * 1024 - 10), "x" * (1024 * 1024 + 1)
    api.unrecorded.post(maps, config_map("a", {"k": fits})).expect(201)
    refused = api.unrecorded.post(maps, config_map("b", {"k": exceeds})).expect(422)
    api.note("config map", refused.body)
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}, "stringData": {"k": exceeds}}
    api.note("secret", api.unrecorded.post(secrets, body).expect(422).body)


def test_missing_or_wrong_token_is_unauthorized(api: RecordingClient, namespace: Namespace) -> None:
    access = api.access
    anonymous = Client(Access(access.host, access.port, access.context, None))
    answer = anonymous.get(namespace.path("configmaps")).expect(401)
    api.note("anonymous", answer.body)
    for value in ("Bearer wrong", "Bearer ", "Basic YTpi", "nonsense"):
        refused = anonymous.get(namespace.path("configmaps"), {"Authorization": value})
        api.note(value, [refused.code, refused.body])
        assert refused.code == 401
    anonymous.post(namespace.path("configmaps"), config_map("a")).expect(401)
    anonymous.get("/version").expect(401)
    anonymous.close()
    api.get(namespace.path("configmaps", "a")).expect(404)


def test_plain_http_is_rejected(api: RecordingClient) -> None:
    """A token sent in plain text could be read by others, so there is an error or no response."""
    connection = http.client.HTTPConnection(api.access.host, api.access.port, timeout=60)
    connection.request("GET", "/version")
    try:
        code = connection.getresponse().status
    except (http.client.HTTPException, ConnectionError):
        code = 0
    connection.close()
    assert code in (0, 400)


def test_server_is_healthy_after_bad_requests(api: RecordingClient) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = api.get(path).expect(200)
        assert answer.raw == b"ok"


def test_custom_resource_errors(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    for text in (MALFORMED["cut"], MALFORMED["text"], MALFORMED["null"], b"[]"):
        assert 400 <= api.post(widgets.path(), text).code <= 500
    api.post(widgets.path(), widgets.body("a"), {"Content-Type": "text/plain"}).expect(415)
    api.get(widgets.path("a", "nothing")).expect(404)
    api.put(widgets.path("a"), widgets.body("a", metadata={"resourceVersion": "1"}))
    api.get(widgets.path(".."))
