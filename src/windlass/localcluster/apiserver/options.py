"""Options of writes and deletions, from the query or the body of a request, and parsers of query parameters."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from windlass.k8s import api_errors

_RESOURCE_VERSION = re.compile("[0-9]{1,18}")
_INT64 = range(-(2**63), 2**63)
_MAX_DIGITS = 20


class WriteOptions(msgspec.Struct, frozen=True):
    is_dry_run: bool = False
    field_validation: str = "Warn"
    # Called with the new and the old object (None for a creation) before a write. Raises ApiError to reject it.
    check: Callable[[dict[str, Any], dict[str, Any] | None], None] | None = None


_VALIDATIONS = ("Ignore", "Warn", "Strict")


def write_options(query: Mapping[str, str], options_kind: str = "UpdateOptions") -> WriteOptions:
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        raise _invalid(options_kind, api_errors.not_supported("dryRun", [dry_run], ["All"]))
    validation = query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        raise _invalid(options_kind, api_errors.not_supported("fieldValidation", validation, _VALIDATIONS))
    return WriteOptions(is_dry_run=dry_run == "All", field_validation=validation)


class DeleteOptions(msgspec.Struct, frozen=True):
    is_dry_run: bool = False
    grace_seconds: int | None = None
    # Foreground, Background, Orphan, or "" if the request has none.
    propagation: str = ""
    # The deprecated orphanDependents: True is Orphan, False is Background.
    orphan: bool | None = None
    # Preconditions: the object must have this UID and resourceVersion; "" for any.
    uid: str = ""
    resource_version: str = ""


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
    """Return the options in the body of the request or, without a body, in its query. `dryRun` may be in either."""
    try:
        parsed = msgspec.convert(body if body is not None else _from_query(query), _DeleteBody)
    except msgspec.ValidationError as error:
        raise api_errors.bad_request(f"invalid DeleteOptions: {error}") from error
    if parsed.kind not in (None, "", "DeleteOptions"):
        raise api_errors.bad_request(f"the body of a delete request must be DeleteOptions, not {parsed.kind}")
    propagation = parsed.propagation_policy or ""
    if propagation and propagation not in _PROPAGATIONS:
        choices = [*_PROPAGATIONS, "nil"]
        raise _invalid("DeleteOptions", api_errors.not_supported("propagationPolicy", propagation, choices))
    if propagation and parsed.orphan_dependents is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise _invalid("DeleteOptions", api_errors.invalid_value("propagationPolicy", propagation, why))
    dry_run = [*(parsed.dry_run or ()), *filter(None, [query.get("dryRun")])]
    if any(value != "All" for value in dry_run):
        raise _invalid("DeleteOptions", api_errors.not_supported("dryRun", dry_run, ["All"]))
    preconditions = parsed.preconditions or _Preconditions()
    return DeleteOptions(
        is_dry_run=bool(dry_run),
        grace_seconds=parsed.grace_period_seconds,
        propagation=propagation,
        orphan=parsed.orphan_dependents,
        uid=preconditions.uid or "",
        resource_version=preconditions.resource_version or "",
    )


def _invalid(options_kind: str, error: api_errors.FieldError) -> api_errors.ApiError:
    return api_errors.invalid("meta.k8s.io", options_kind, "", [error])


def _from_query(query: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    if grace := query.get("gracePeriodSeconds"):
        found["gracePeriodSeconds"] = parse_integer("gracePeriodSeconds", grace)
    if propagation := query.get("propagationPolicy"):
        found["propagationPolicy"] = propagation
    if orphan := query.get("orphanDependents"):
        found["orphanDependents"] = parse_boolean(orphan)
    return found


def parse_query(query: str) -> dict[str, str]:
    """Return the parameters of a query. The first value of a repeated parameter counts."""
    return dict(reversed(parse_qsl(query, keep_blank_values=True)))


def parse_resource_version(text: str) -> int:
    if not _RESOURCE_VERSION.fullmatch(text):
        raise api_errors.bad_request(
            f"Invalid value: {api_errors.format_value(text[:100])}: not a resource version"
        )
    return int(text)


def parse_integer(name: str, text: str) -> int:
    try:
        number = int(text[:_MAX_DIGITS])
    except ValueError:
        number = _INT64.stop
    if number in _INT64 and len(text) <= _MAX_DIGITS:
        return number
    raise api_errors.bad_request(
        f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax ({name} must be a 64-bit integer)'
    )


def parse_boolean(text: str) -> bool:
    return text.lower() in ("1", "t", "true")
