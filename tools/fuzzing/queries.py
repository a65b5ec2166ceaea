"""Send reads of every kind (selectors, pages, versions, representations), and the query parameters of writes."""

import json
from collections.abc import Mapping
from random import Random
from urllib.parse import quote, urlencode

from fuzzing import objects, values
from fuzzing.session import Session
from fuzzing.surface import Resource
from fuzzing.wire import Line, Request

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
ACCEPTS = (
    *("application/json", "*/*", "", "application/yaml", TABLE, f"{TABLE},application/json", _PARTIAL),
    *(
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf",
    ),
    *(
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/json;as=Table",
        "application/json;stream=watch",
    ),
    *(
        f"application/yaml;as=Table;v=v1;g=meta.k8s.io,{TABLE}",
        "text/html",
        "a",
        ",;,;=",
        ";" * 500,
        "*/*;q=NaN",
    ),
    *(
        'application/json;charset="',
        "application/json;as=Table;as=Table;v=v1;g=meta.k8s.io;g=x",
        "application/*",
    ),
    *("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "application/json;q=0"),
)
_PUBLISHED = (
    *(
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/version",
        "/readyz",
        "/openapi/v2",
        "/openapi/v3",
    ),
    *(
        "/openapi/v3/api/v1",
        "/openapi/v3/apis/batch/v1",
        "/openapi/v3/apis/fuzz.example/v1",
        "/metrics",
        "/api/v2/pods",
    ),
    *(
        "/api/v1/namespaces/default/pods/a/b/c/d",
        "/api//v1/pods",
        "/apis/%2e%2e/v1/x",
        "/api/v1/nothing",
        "/%00",
        "/%ff",
    ),
    *(
        "/api/v1/namespaces/default/pods/%2e%2e",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/default/configmaps/a%2Fb",
    ),
)
_OPERATORS = ("=", "==", "!=", " in ", " notin ", ">", "<", "", "!", ",", "(", ")", "=,", " exists ")
_LABELS = ("app", "tier", "team", "kubernetes.io/hostname", "a/b/c", "-", "app\\,")
_FIELDS = (
    *("metadata.name", "metadata.namespace", "status.phase", "spec.nodeName", "involvedObject.name", "type"),
    *("spec.unschedulable", "status.successful", "spec.name", "metadata.uid", "spec.clusterIP", "a.b", ""),
)


def run(session: Session, line: Line, dice: Random) -> None:
    tokens: list[str] = [""]
    while session.goes_on():
        resource = dice.choice(session.surface.resources)
        namespace, name = _where(resource, dice)
        path = resource.path(namespace, name)
        query = _reading(dice, tokens)
        if dice.random() < 0.02 and not name:
            query |= _watching(dice)
        if dice.random() < 0.08:
            path = dice.choice(_PUBLISHED)
        method = dice.choice(("GET", "GET", "GET", "GET", "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "PATCH"))
        answer = session.ask(
            line, Request(method, with_query(path, query), (("Accept", dice.choice(ACCEPTS)),))
        )
        if answer is not None and b'"continue":"e' in answer.body:
            tokens = [*tokens[-8:], _token_in(answer.body)]


def _where(resource: Resource, dice: Random) -> tuple[str, str]:
    namespace = dice.choice((*objects.NAMESPACES, "", "nowhere")) if resource.namespaced else ""
    if dice.random() < 0.6 or (resource.namespaced and not namespace):
        return namespace, ""
    return namespace, dice.choice(objects.NAMES) if dice.random() < 0.8 else values.text(dice) or "x"


def with_query(path: str, query: Mapping[str, str]) -> str:
    encoded = urlencode(query, quote_via=quote, errors="surrogatepass")
    return f"{path}?{encoded}" if encoded else path


def writing(dice: Random) -> dict[str, str]:
    """Return the query parameters of a write."""
    return _some(
        dice,
        0.15,
        dryRun=("All", "", "None", "all"),
        fieldValidation=("Strict", "Warn", "Ignore", "", "strict"),
        fieldManager=("me", "", "é", "a" * 200),
        pretty=("true", "1", "nonsense"),
    )


def deleting(dice: Random) -> dict[str, str]:
    return _some(
        dice,
        0.25,
        dryRun=("All", "", "Some"),
        gracePeriodSeconds=("0", "1", "30", "-1", "9" * 25, "x", "", "1.5", "²"),
        propagationPolicy=("Foreground", "Background", "Orphan", "", "Sideways"),
        orphanDependents=("true", "false", "perhaps"),
    )


def selecting(dice: Random) -> dict[str, str]:
    return _some(dice, 0.4, labelSelector=(_labels(dice),), fieldSelector=(_fields(dice),))


def _reading(dice: Random, tokens: list[str]) -> dict[str, str]:
    query = _some(
        dice,
        0.25,
        limit=("1", "2", "0", "-1", "500", "9" * 19, "9" * 400, "x", "1.0", " 1", "1_0"),
        resourceVersion=_versions(dice),
        resourceVersionMatch=("Exact", "NotOlderThan", "", "exact"),
        pretty=("true", "false", "maybe"),
        includeObject=("Object", "Metadata", "None", "Everything"),
        timeoutSeconds=("1", "0", "x"),
    )
    query["continue"] = (
        values.mutated(dice.choice(tokens), dice) if dice.random() < 0.1 else dice.choice(tokens)
    )
    if not isinstance(query["continue"], str) or not query["continue"]:
        del query["continue"]
    return query | selecting(dice)


def _watching(dice: Random) -> dict[str, str]:
    ends = {
        "timeoutSeconds": "1" if dice.random() < 0.7 else dice.choice(("0", "-1", "9" * 400, "x", "1.5", ""))
    }
    begins = _some(
        dice,
        0.4,
        resourceVersion=_versions(dice),
        allowWatchBookmarks=("true", "1", "no"),
        sendInitialEvents=("true", "false", "x"),
        resourceVersionMatch=("NotOlderThan", "Exact"),
    )
    return {"watch": dice.choice(("true", "1", "True", "t", "nonsense")), **begins, **ends}


def _versions(dice: Random) -> tuple[str, ...]:
    return (
        "0",
        "1",
        "5",
        str(dice.randrange(3000)),
        "-1",
        "abc",
        "9" * 18,
        "9" * 19,
        "9" * 400,
        "٣",
        "²",
        " 1",
        "1.5",
        "",
    )


def _labels(dice: Random) -> str:
    parts = [
        dice.choice(_LABELS)
        + dice.choice(_OPERATORS)
        + dice.choice(("web", "(a,b)", "", "a", values.text(dice)))
    ]
    while dice.random() < 0.4:
        parts.append(dice.choice((*_LABELS, values.text(dice))) + dice.choice(_OPERATORS) + values.text(dice))
    return ",".join(parts)


def _fields(dice: Random) -> str:
    parts = [dice.choice(_FIELDS) + dice.choice(("=", "==", "!=", " in ", "")) + values.text(dice)]
    while dice.random() < 0.3:
        parts.append(dice.choice(_FIELDS) + dice.choice(("=", "!=", "\\=")) + values.text(dice))
    return ",".join(parts)


def _some(dice: Random, likelihood: float, **choices: tuple[str, ...]) -> dict[str, str]:
    return {name: dice.choice(found) for name, found in choices.items() if dice.random() < likelihood}


def _token_in(body: bytes) -> str:
    try:
        return str(json.loads(body)["metadata"]["continue"])
    except (ValueError, KeyError):
        return ""
