"""What a request is about: its path, and what its query asks for. Pure."""

import functools
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from windlass.localcluster import failures

# Paths below a namespace that belong to the namespace itself, and are no kind of object in it.
_OF_NAMESPACES = ("status", "finalize")


class Target(msgspec.Struct, frozen=True):
    """`/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE`, with "" for what is not there."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@functools.lru_cache(maxsize=4096)
def parse(path: str) -> Target | None:
    """The target of a path as it was sent, or None if it is no path of an object or a list."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", version, *rest] if rest:
            return _below("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _below(group, version, rest)
    return None


def _below(group: str, version: str, parts: list[str]) -> Target | None:
    match parts:
        case ["namespaces"] | ["namespaces", _]:
            return Target(group, version, "namespaces", name=parts[1] if len(parts) > 1 else "")
        case ["namespaces", name, subresource] if subresource in _OF_NAMESPACES:
            return Target(group, version, "namespaces", name=name, subresource=subresource)
        case ["namespaces", namespace, plural, *rest]:
            return _named(Target(group, version, plural, namespace), rest)
        case [plural, *rest]:
            return _named(Target(group, version, plural), rest)
    return None


def _named(target: Target, parts: list[str]) -> Target | None:
    match parts:
        case []:
            return target
        case [name]:
            return msgspec.structs.replace(target, name=name)
        case [name, subresource]:
            return msgspec.structs.replace(target, name=name, subresource=subresource)
    return None


class WriteOptions(msgspec.Struct, frozen=True):
    """How a write is to be done."""

    is_dry_run: bool = False
    field_validation: str = "Warn"


_VALIDATIONS = ("Ignore", "Warn", "Strict")


def write_options(query: Mapping[str, str], what: str = "UpdateOptions") -> WriteOptions:
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        fault = failures.not_supported("dryRun", [dry_run], ["All"])
        raise failures.invalid("meta.k8s.io", what, "", [fault])
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        fault = failures.not_supported("fieldValidation", validation, _VALIDATIONS)
        raise failures.invalid("meta.k8s.io", what, "", [fault])
    return WriteOptions(is_dry_run=dry_run == "All", field_validation=validation)


class DeleteOptions(msgspec.Struct, frozen=True):
    """How a deletion is to be done."""

    is_dry_run: bool = False
    grace_seconds: int | None = None
    # Foreground, Background, Orphan, or "" for what is usual for the kind.
    propagation: str = ""
    # As an old client says it: True leaves the dependents alone.
    orphan: bool | None = None
    uid: str = ""
    version: str = ""


class _Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _DeleteBody(msgspec.Struct, frozen=True, rename="camel"):
    kind: str | None = None
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = None


_PROPAGATIONS = ("Foreground", "Background", "Orphan")


def delete_options(query: Mapping[str, str], body: object) -> DeleteOptions:
    """From the query or, when the request has one, from its body."""
    try:
        given = msgspec.convert(body if body is not None else _from_query(query), _DeleteBody)
    except msgspec.ValidationError as error:
        raise failures.bad_request(f"the DeleteOptions cannot be read: {error}") from error
    if given.kind not in (None, "", "DeleteOptions"):
        raise failures.bad_request(f"a deletion takes DeleteOptions, not {given.kind}")
    propagation = given.propagation_policy or ""
    if propagation and propagation not in _PROPAGATIONS:
        detail = failures.not_supported("propagationPolicy", propagation, [*_PROPAGATIONS, "nil"])
        raise failures.invalid("meta.k8s.io", "DeleteOptions", "", [detail])
    if propagation and given.orphan_dependents is not None:
        detail = failures.invalid_value(
            "propagationPolicy", propagation, "orphanDependents and deletionPropagation cannot be both set"
        )
        raise failures.invalid("meta.k8s.io", "DeleteOptions", "", [detail])
    dry_run = [*(given.dry_run or ()), *filter(None, [query.get("dryRun")])]
    if any(value != "All" for value in dry_run):
        detail = failures.not_supported("dryRun", dry_run, ["All"])
        raise failures.invalid("meta.k8s.io", "DeleteOptions", "", [detail])
    preconditions = given.preconditions or _Preconditions()
    return DeleteOptions(
        is_dry_run=bool(dry_run),
        grace_seconds=given.grace_period_seconds,
        propagation=propagation,
        orphan=given.orphan_dependents,
        uid=preconditions.uid or "",
        version=preconditions.resource_version or "",
    )


def _from_query(query: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    if grace := query.get("gracePeriodSeconds"):
        found["gracePeriodSeconds"] = whole_number("gracePeriodSeconds", grace)
    if propagation := query.get("propagationPolicy"):
        found["propagationPolicy"] = propagation
    if orphan := query.get("orphanDependents"):
        found["orphanDependents"] = is_true(orphan)
    return found


def whole_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise failures.bad_request(
            f'strconv.ParseInt: parsing "{text}": invalid syntax ({name} must be a whole number)'
        ) from None


def is_true(text: str) -> bool:
    return text.lower() in ("1", "t", "true")
