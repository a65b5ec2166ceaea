"""Check that all stored objects are still readable in every form, with equal results."""

import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml

from fuzzing import verdicts
from fuzzing.queries import with_query
from fuzzing.session import Session
from fuzzing.surface import Resource, Surface
from fuzzing.wire import Line, Request, connected

_TABLE = (("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),)
_PARTIAL = (("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),)
_YAML = (("Accept", "application/yaml"),)
_PAGE = "7"
_MOST_DIFFERENCES = 5
_PATIENCE = 30.0
"""Maximum seconds until the garbage collector is idle."""

_DEFAULTS_LABEL = "kubernetes.io/bootstrapping"

Object = dict[str, Any]
Objects = dict[str, Object]
"""Objects by path."""


def check(session: Session, line: Line) -> Objects:
    """Check all stored objects once nothing changes any more."""
    kept = _settled(session, line)
    for resource in session.surface.resources:
        own = _of(resource, kept)
        _check_reads(session, line, own)
        _check_lists(session, line, resource, own)
    with ThreadPoolExecutor(8) as pool:
        watches = [
            pool.submit(_check_watch, session, one, _of(one, kept)) for one in session.surface.resources
        ]
    for watch in watches:
        watch.result()
    return kept


def compare(session: Session, before: Objects, after: Objects) -> None:
    """Compare the objects before and after a kill."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new or _is_default(new):
            continue
        what = "gone" if new is None else "there, though deleted" if old is None else "changed"
        difference = "; ".join(itertools.islice(_differences(old, new, ""), _MOST_DIFFERENCES))
        session.find(f"after a kill and a restart, an object is {what}", f"GET {path}: {difference}")


def _is_default(obj: Object | None) -> bool:
    """Return whether the server creates or corrects the object at every start, as it does with default roles."""
    return obj is not None and _DEFAULTS_LABEL in (obj["metadata"].get("labels") or {})


def everything(session: Session, line: Line) -> Objects:
    session.rediscover(line)
    found: Objects = {}
    for resource in session.surface.resources:
        listed = _body(session, line, Request("GET", resource.path()))
        for item in (listed or {}).get("items", ()):
            obj = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
            found[_path_of(resource, obj)] = obj
    return found


def _settled(session: Session, line: Line) -> Objects:
    end = time.monotonic() + _PATIENCE
    before, now = None, everything(session, line)
    while (before != now or any(_leftovers(session.surface, now))) and time.monotonic() < end:
        time.sleep(0.2)
        before, now = now, everything(session, line)
    if before != now:
        session.find("objects still change although no client writes", "kubectl get all -A -w")
    for path, why in _leftovers(session.surface, now):
        session.find(f"an object was not deleted: {why}", f"GET {path}", afterwards=json.dumps(now[path]))
    return now


def _leftovers(surface: Surface, found: Objects) -> Iterator[tuple[str, str]]:
    """Yield objects that the garbage collector or a deletion should have removed."""
    by_uid = {obj["metadata"]["uid"]: obj for obj in found.values()}
    namespaces = {obj["metadata"]["name"] for obj in found.values() if obj["kind"] == "Namespace"}
    for path, obj in found.items():
        meta = obj["metadata"]
        is_held = bool(meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"))
        if "deletionTimestamp" in meta and not is_held and obj["kind"] != "Namespace":
            yield path, "it has no finalizer"
        if "namespace" in meta and meta["namespace"] not in namespaces:
            yield path, "its namespace is gone"
        owners = meta.get("ownerReferences") or []
        are_known = all(surface.of(one["apiVersion"], one["kind"]) for one in owners)
        has_owner = any(_is_owner(by_uid.get(one["uid"]), one, meta) for one in owners)
        if owners and are_known and not has_owner and "deletionTimestamp" not in meta:
            yield path, "its owners are gone"


def _is_owner(found: Object | None, reference: Object, dependent: Object) -> bool:
    """Return whether a reference is valid: with another name or across namespaces it refers to nothing."""
    if found is None or found["metadata"]["name"] != reference["name"]:
        return False
    return found["metadata"].get("namespace") in (None, dependent.get("namespace"))


def _check_reads(session: Session, line: Line, own: Objects) -> None:
    for path, obj in own.items():
        if len(path) > verdicts.LONGEST_TARGET:
            continue
        for headers in ((), _YAML):
            request = Request("GET", path, headers)
            if _body(session, line, request) != obj:
                session.find(
                    f"a GET{' as YAML' * bool(headers)} does not show what the list shows", request.curl
                )


def _check_lists(session: Session, line: Line, resource: Resource, own: Objects) -> None:
    names = [_identity(obj) for obj in own.values()]
    paged, token = [], ""
    while True:
        query = {"limit": _PAGE, "continue": token} if token else {"limit": _PAGE}
        page = _body(session, line, Request("GET", with_query(resource.path(), query))) or {}
        paged += [_identity(item) for item in page.get("items", ())]
        token = page.get("metadata", {}).get("continue", "")
        if not token:
            break
    table = (
        _body(session, line, Request("GET", with_query(resource.path(), {"includeObject": "Object"}), _TABLE))
        or {}
    )
    rows = table.get("rows") or []
    partial = _body(session, line, Request("GET", resource.path(), _PARTIAL)) or {}
    if any(len(row["cells"]) != len(table["columnDefinitions"]) for row in rows):
        session.find(
            "a table row does not have a cell for each column", Request("GET", resource.path(), _TABLE).curl
        )
    ways = {
        "in pages": paged,
        "as a table": [_identity(row["object"]) for row in rows],
        "as metadata": [_identity(item) for item in partial.get("items") or []],
    }
    for way, shown in ways.items():
        if shown != names:
            session.find(
                f"a list {way} does not show what the list shows", Request("GET", resource.path()).curl
            )


def _check_watch(session: Session, resource: Resource, own: Objects) -> None:
    request = Request("GET", with_query(resource.path(), {"watch": "true", "timeoutSeconds": "1"}))
    with connected(session.server.local) as line:
        answer = session.ask(line, request)
    if answer is None or answer.code != 200:
        session.find(f"a kind cannot be watched: {answer.code if answer else 'no answer'}", request.curl)
        return
    shown = [json.loads(event)["object"] for event in answer.body.splitlines()]
    if {_path_of(resource, obj): obj for obj in shown} != own:
        session.find("a watch does not show what the list shows", request.curl)


def _body(session: Session, line: Line, request: Request) -> Any:
    answer = session.ask(line, request)
    if answer is None:
        return None
    if answer.code != 200:
        session.find(f"{answer.code} for a read of a stored object", request.curl, answer)
        return None
    if answer.media_type == "application/yaml":
        return yaml.load(answer.body, _Loader)  # noqa: S506 — it is safe, see below
    return verdicts.parsed(answer)


# Much faster than the pure Python one, and as safe.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _of(resource: Resource, kept: Objects) -> Objects:
    version_and_kind = (resource.api_version, resource.kind)
    return {path: obj for path, obj in kept.items() if (obj["apiVersion"], obj["kind"]) == version_and_kind}


def _path_of(resource: Resource, obj: Object) -> str:
    return resource.path(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _identity(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _differences(old: Any, new: Any, at: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), f"{at}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{at}[{place}]")
    elif old != new:
        yield f"{at}: {json.dumps(old)[:300]} → {json.dumps(new)[:300]}"
