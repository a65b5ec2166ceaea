"""Where a server may differ from the transcripts, each with its reason. There is no other place for an exception.

The transcripts are of Kubernetes 1.20, as old as the packages of Debian 12; the embedded server follows newer
releases. What those do otherwise, what is Go's way of printing, and what no client can depend on is left out of
the transcripts of either server, or forgiven where the two are compared.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

Rules = Mapping[str, str]

EMBEDDED_FAILS: Final[Rules] = {
    "test_errors.py::test_malformed_json[not-utf8]": (
        "Kubernetes reads bytes that are no UTF-8 as a name and refuses that; JSON that is no UTF-8 is no JSON"
    ),
    "test_formats.py::test_yaml_that_is_none[two-documents]": (
        "Kubernetes takes the first document and drops the second without a word"
    ),
    "test_errors.py::test_a_method_that_is_not_there[unknown-method]": (
        "a method that HTTP does not know is refused by the HTTP parser, with 400"
    ),
    "test_errors.py::test_a_name_that_is_none[GET-null]": "messages quote as JSON does, not as Go does",
    "test_errors.py::test_a_name_that_is_none[DELETE-null]": "messages quote as JSON does, not as Go does",
    "test_workloads.py::test_scale[deployments]": "of what is not there, the kind is named, as for all other kinds",
    "test_deletion.py::test_services_are_not_deleted_together": "they are since 1.23",
    "test_discovery.py::test_resources[api.v1]": "services have deletecollection since 1.23",
    **dict.fromkeys(
        (
            f"test_definitions.py::test_a_definition_that_makes_no_sense[{case}]"
            for case in (
                "no-versions",
                "no-kind",
                "no-storage",
                "two-storages",
                "bad-version",
                "column-without-path",
            )
        ),
        "1.20 names besides what follows from the fault in forms of the object that no client sees",
    ),
    "test_definitions.py::test_what_a_definition_may_not_change": (
        "that the name no longer fits is told as well, which Kubernetes does on create only"
    ),
}
"""Tests that the embedded server is known to fail, by the end of their id."""


# What is left out of every transcript

IGNORED_FIELDS: Final[Rules] = {
    "managedFields": "who set which field matters to server-side apply only, which is not supported",
    "storageVersionHash": "tells whether objects wait to be stored in another version, which no client here asks",
    "kubernetes.io/metadata.name": "a label of each namespace since 1.21",
    "batch.kubernetes.io/controller-uid": "a label of a job's pods since 1.27, beside the one without a prefix",
    "batch.kubernetes.io/job-name": "a label of a job's pods since 1.27, beside the one without a prefix",
    "controller-uid": "what a job selects its pods by before 1.27",
    "job-name": "a label of a job's pods that goes with controller-uid",
}
"""Wherever they occur."""

IGNORED_OF_KIND: Final[Mapping[str, Rules]] = {
    "APIResourceList": {"singularName": "empty for the built-in kinds before 1.27"},
    "Service": {
        "internalTrafficPolicy": "set since 1.21",
        "allocateLoadBalancerNodePorts": "set since 1.22",
        "ipFamilies": "set since 1.23",
        "ipFamilyPolicy": "set since 1.23",
    },
    "Job": {
        "completionMode": "set since 1.21",
        "suspend": "set since 1.21",
        "generation": "set since 1.23",
        "podReplacementPolicy": "set since 1.29",
        "manualSelector": "false is written out since 1.31",
    },
    "StatefulSet": {
        "availableReplicas": "0 is written out since 1.22",
        "persistentVolumeClaimRetentionPolicy": "set since 1.27",
    },
    "Node": {"taints": "a new node is tainted until a controller finds it ready, and here is none"},
    "Table": {"description": "what a column means is told in prose, and everybody has his own"},
}
"""Anywhere inside an object of that kind."""

IGNORED_IF_NULL: Final[Rules] = dict.fromkeys(
    (
        "creationTimestamp",
        "lastHeartbeatTime",
        "lastProbeTime",
        "lastTransitionTime",
        "startedAt",
        "finishedAt",
    ),
    "Go's encoder writes out a time that is not set",
)

IGNORED_IF_EMPTY: Final[Rules] = {
    "details": "of a Status that has none",
    "labels": "where all were left out",
    "matchLabels": "where all were left out",
}

IGNORED_WORDS: Final = {
    re.compile(r"batch\.kubernetes\.io/(?=controller-uid|job-name)"): "a prefix of a job's labels since 1.27",
    re.compile(
        r"StorageError: invalid object, Code: \d+, Key: [^,]*, ResourceVersion: \d+, AdditionalErrorMsg: "
    ): ("where in etcd an object is kept: the embedded server has no etcd"),
    re.compile(r", application/vnd\.kubernetes\.protobuf|, application/apply-patch\+yaml"): (
        "formats that the embedded server does not read"
    ),
    re.compile(r', "ReadWriteOncePod"'): "a way of using a volume since 1.22",
}

PRINTED: Final = re.compile(
    r"(?<= value: )(?:map\[|\[\]|[a-z0-9]+\.[A-Z]|\{|\[).*?[\]})](?=: |$|, [a-z][\w.\[\]]*: )", re.DOTALL
)
"""A value that is no text, in the syntax of Go before 1.33 and as JSON since."""

PRINTED_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC")
"""The same for a time."""

SUPPORTED: Final = re.compile(r'(?<=supported values: )"[^"]*"(?:, "[^"]*")*')
"""In the order of the source code before 1.27, sorted since."""


def left_out(document: Any, ignored: frozenset[str] = frozenset(IGNORED_FIELDS)) -> Any:
    """The same document without all that is not compared."""
    if isinstance(document, Mapping):
        ignored = ignored | IGNORED_OF_KIND.get(str(document.get("kind")), {}).keys()
        return {
            name: _without_repetitions(left_out(value, ignored))
            if name == "causes"
            else left_out(value, ignored)
            for name, value in document.items()
            if name not in ignored and not _says_nothing(name, value, ignored)
        }
    if isinstance(document, list):
        return [left_out(item, ignored) for item in document]
    return _reworded(document) if isinstance(document, str) else document


def _says_nothing(name: str, value: Any, ignored: frozenset[str]) -> bool:
    if name in IGNORED_IF_EMPTY and isinstance(value, Mapping):
        return not value.keys() - ignored
    return name in IGNORED_IF_NULL and value is None


def _without_repetitions(causes: list[Any]) -> list[Any]:
    """A patch that is refused is tried again by 1.20, which then tells each cause several times."""
    return [cause for index, cause in enumerate(causes) if cause not in causes[:index]]


def _reworded(text: str) -> str:
    for words in IGNORED_WORDS:
        text = words.sub("", text)
    text = SUPPORTED.sub(lambda match: ", ".join(sorted(match[0].split(", "))), text)
    return PRINTED.sub("<value>", PRINTED_TIME.sub('"<time>"', text))


# What is forgiven where an answer is compared with the transcript

OWN_WORDS: Final = re.compile(
    r"json: |json parse error|JSON input|EOF|Go value|readUint64|ReadString|error found in #"
    r"|patch: Invalid value|strconv\.|is registered for version|cannot be handled as a|yaml: "
    r"|continue key is not valid|<object>|unrecognized type"  # a decoder's as well
    r"|415: Unsupported Media Type|406: Not Acceptable"  # the list of those that are supported, in newer releases
    r"|provided IP "  # which range it has, and how it says so
    r"|valid regular expression, but"  # what is wrong with it, and what to write instead
    r"|fields other than"  # the list grows with each release
)
"""Messages of which only code, reason and fields are compared, for they are about the server's own parts."""


def forgiven(expected: Any, found: Any) -> Any:
    """One entry of a transcript, with the answer of a real server wherever it may differ from that."""
    if expected is None or not isinstance(found.get("answer"), Mapping):
        return found
    theirs, ours = expected.get("answer"), found["answer"]
    if _is_no_status_of_a_missing_path(expected) and ours.get("kind") == "Status" and ours.get("code") == 404:
        return {**found, "type": expected.get("type"), "answer": theirs}
    if not isinstance(theirs, Mapping) or theirs.get("kind") != "Status":
        return found
    if _is_an_error_of_its_own(theirs) and ours.get("code") in (400, 422):
        return {**found, "code": 500, "answer": theirs}
    return {**found, "answer": _with_its_words(theirs, ours)}


def _is_no_status_of_a_missing_path(expected: Mapping[str, Any]) -> bool:
    """Where no group is asked, Kubernetes answers 404 in plain text."""
    return expected.get("code") == 404 and "type" in expected


def _is_an_error_of_its_own(status: Mapping[str, Any]) -> bool:
    """Kubernetes answers 500, without a reason, to some requests that it cannot read: 400 says whose fault it is."""
    return status.get("code") == 500 and "reason" not in status


def _with_its_words(theirs: Any, ours: Any) -> Any:
    """Ours with their messages, where those are about their own parts. All else stays as it is."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        return {key: _with_its_words(theirs.get(key), value) for key, value in ours.items()}
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [_with_its_words(*pair) for pair in zip(theirs, ours, strict=True)]
    return theirs if isinstance(theirs, str) and isinstance(ours, str) and OWN_WORDS.search(theirs) else ours
