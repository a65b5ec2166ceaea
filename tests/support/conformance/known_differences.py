"""Differences between the embedded server and the transcripts of a real one, each with its reason.

All exceptions are here. A difference is either left out of the transcripts of both servers, or accepted when the
response of the embedded server is compared.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

Rules = Mapping[str, str]

EMBEDDED_FAILS: Final[Rules] = {
    "test_errors.py::test_malformed_json_is_rejected[not-utf8]": (
        "Kubernetes replaces bytes that are not UTF-8; the embedded server rejects the request with 400"
    ),
    "test_formats.py::test_invalid_yaml_is_rejected[two-documents]": (
        "Kubernetes reads the first YAML document and ignores the others without a warning; the embedded server "
        "rejects the request, so that nothing is lost unnoticed"
    ),
    "test_errors.py::test_unsupported_method_is_rejected[unknown-method]": (
        "the HTTP parser of the embedded server rejects methods that HTTP does not define with 400, not 405"
    ),
}
"""Tests that the embedded server is known to fail, by the end of their node ID."""

OTHER_RELEASES_FAIL: Final[Rules] = {
    "test_creation.py::test_validation_of_other_kinds[service-name]": (
        "before 1.36, the name of a service starts with a letter"
    ),
    "test_definitions.py::test_deleted_definition_waits_for_its_objects": "1.20 answers 405, 1.37 answers 403",
    "test_deletion.py::test_delete_collection_of_services": "services have deletecollection since 1.23",
    "test_patches.py::test_config_map_patches[merge-list]": "1.20 answers 422, 1.37 answers 400",
}
"""Tests that are skipped on a real server of another minor release than that of the transcripts."""


# Left out of every transcript

IGNORED_FIELDS: Final[Rules] = {
    "managedFields": "only server-side apply reads field ownership, and the embedded server does not support it",
    "storageVersionHash": "an opaque value by which storage migrators notice a new storage version",
}
"""Ignored in all objects."""

IGNORED_OF_KIND: Final[Mapping[str, Rules]] = {
    "Node": {
        "taints": "Kubernetes taints a new node until its node controller finds it ready; the embedded cluster has "
        "one node and no such controller"
    },
    "Table": {"description": "the help text of a column; kubectl does not print it"},
}
"""Ignored anywhere inside an object of that kind."""

READS_PROTOBUF: Final = "the embedded server reads protobuf and does not write it"

IGNORED_TEXT: Final = {
    re.compile(
        r"StorageError: invalid object, Code: \d+, Key: [^,]*, ResourceVersion: \d+, AdditionalErrorMsg: "
    ): "the etcd key of an object: the embedded server has no etcd",
    re.compile(r", application/apply-patch\+yaml"): "the embedded server does not support server-side apply",
    re.compile(r"(?<=are accepted: application/json, application/yaml), .*"): READS_PROTOBUF,
    re.compile(r"(?<=representations: application/json, application/yaml), .*"): READS_PROTOBUF,
    re.compile(r"\n@@ -\d.*", re.DOTALL): "a diff of two pods in the internal form of Kubernetes",
}
"""Ignored parts of messages."""

VALUE: Final = re.compile(r"(?<= value: )[\[{]")


def without_ignored(document: Any, ignored: frozenset[str] = frozenset(IGNORED_FIELDS)) -> Any:
    """Return the document without everything that is not compared."""
    if isinstance(document, Mapping):
        ignored = ignored | IGNORED_OF_KIND.get(str(document.get("kind")), {}).keys()
        return {
            name: without_ignored(value, ignored) for name, value in document.items() if name not in ignored
        }
    if isinstance(document, list):
        return [without_ignored(item, ignored) for item in document]
    return _shortened(document) if isinstance(document, str) else document


def _shortened(text: str) -> str:
    for pattern in IGNORED_TEXT:
        text = pattern.sub("", text)
    return _without_objects(text)


def _without_objects(text: str) -> str:
    """Return a message with `<object>` for each object in it.

    Kubernetes prints objects in its internal form, with Go's field names and unset fields. The embedded server prints
    what the client sent.
    """
    position = 0
    while found := VALUE.search(text, position):
        position = found.end()
        try:
            value, end = json.JSONDecoder().raw_decode(text, found.start())
        except ValueError:
            continue
        if _holds_an_object(value):
            text = f"{text[: found.start()]}<object>{text[end:]}"
    return text


def _holds_an_object(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_holds_an_object, value)))


# Accepted when a response is compared with the transcript

OWN_MESSAGES: Final[Rules] = {
    "json parse error": "errors of Go's JSON decoder, and the body in hexadecimal",
    "): yaml: ": "errors of Go's YAML decoder",
    "illegal base64 data": "errors of Go's base64 decoder",
    "error parsing regexp": "errors of Go's regular expressions; RE2 words them differently",
    "continue key is not valid": "errors of Go's decoders; clients do not read these tokens",
    "strconv.ParseInt": "errors of Go's number parser; ours also name the query parameter",
    "Go struct field DeleteOptions": "types of Go",
    "unrecognized type: ": "types of Go",
    "unknown conversion": "types of Go; ours say which kind is expected",
    "is registered for version": "source files of the server; ours say which kind or version is expected",
    "Object 'Kind' is missing in '": "the whole body, quoted",
    "is nested too deeply": "the two servers have different limits",
}
"""Parts of messages about the internals of one server, with a description.

The embedded server answers with the same code, reason and fields, but with another message.
"""


def with_accepted_differences(expected: Any, found: Any) -> Any:
    """Return an entry of a transcript with the response of the real server wherever ours may differ."""
    if expected is None or not isinstance(found.get("answer"), Mapping):
        return found
    theirs, ours = expected.get("answer"), found["answer"]
    if _is_plain_not_found(expected) and ours.get("kind") == "Status" and ours.get("code") == 404:
        return {**found, "type": expected.get("type"), "answer": theirs}
    if not isinstance(theirs, Mapping) or theirs.get("kind") != "Status":
        return found
    if _is_internal_error(theirs) and ours.get("code") == 400:
        return {**found, "code": 500, "answer": theirs}
    return {**found, "answer": _with_their_messages(theirs, ours)}


def _is_plain_not_found(expected: Mapping[str, Any]) -> bool:
    """Return whether Kubernetes answers 404 in plain text; the embedded server answers with a Status."""
    return expected.get("code") == 404 and "type" in expected


def _is_internal_error(status: Mapping[str, Any]) -> bool:
    """Return whether Kubernetes answers 500 (to a binding without a node); the embedded server answers 400."""
    return status.get("code") == 500 and "reason" not in status


def _with_their_messages(theirs: Any, ours: Any) -> Any:
    """Return our response with their messages where OWN_MESSAGES allows a difference."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        return {key: _with_their_messages(theirs.get(key), value) for key, value in ours.items()}
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [_with_their_messages(*pair) for pair in zip(theirs, ours, strict=True)]
    are_texts = isinstance(theirs, str) and isinstance(ours, str)
    is_accepted = are_texts and any(part in theirs or part in ours for part in OWN_MESSAGES)
    return theirs if is_accepted else ours
