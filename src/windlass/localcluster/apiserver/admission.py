"""Decoding and checks of an object that a client sent, without I/O.

`lifecycle` calls these functions before and after the hooks of the kind's strategy. They correspond to decoding,
`rest.BeforeCreate`, `rest.BeforeUpdate` and `rest.BeforeDelete` in kube-apiserver.
"""

from collections.abc import Iterable, Iterator
from typing import NoReturn, cast

import msgspec

from windlass.k8s import api_errors
from windlass.k8s.api_errors import ApiError, FieldError
from windlass.localcluster.apiserver import metadata
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.options import DeleteOptions, WriteOptions
from windlass.localcluster.apiserver.schemas import typed
from windlass.localcluster.apiserver.strategy import Change, Object, Patch

_STALE = "the object has been modified; please apply your changes to the latest version and try again"
_metadata_schema = typed.TypedSchema("V1ObjectMeta", {})


def convert_to_version(kind: Kind, obj: Object) -> Object:
    """Return the object in the version of `kind`, pruned and defaulted if the definition has ever changed."""
    if kind.reads_through_schema:
        kind.schema.prune(obj)
        kind.schema.default(obj)
    if obj["apiVersion"] == kind.api_version:
        return obj
    return {**obj, "apiVersion": kind.api_version}


def decode(kind: Kind, client_object: Object, options: WriteOptions) -> tuple[Object, tuple[str, ...]]:
    """Return the object with the kind and version of `kind`, pruned and defaulted, and warnings about unknown fields.

    Warnings are returned only if the field validation is `Warn`; `Strict` raises ApiError instead.
    """
    check_identity(kind, client_object)
    meta = client_object.get("metadata")
    if not isinstance(meta, dict | None):
        _reject_metadata(kind, meta)
    new: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta or {}}
    new.update(item for item in client_object.items() if item[0] not in new)
    if isinstance(kind.schema, typed.TypedSchema):
        kind.schema.check_types(new, kind.kind, kind.version)
        dropped = kind.schema.prune(new)
    else:
        _metadata_schema.check_types(new["metadata"], kind.kind, kind.version)
        dropped = [f"metadata.{path}" for path in _metadata_schema.prune(new["metadata"])]
        dropped += kind.schema.prune(new)
    warnings = tuple(f'unknown field "{path}"' for path in dropped[: api_errors.MAX_ERRORS])
    if warnings and options.field_validation == "Strict":
        text = ", ".join(warnings)[: api_errors.MAX_ERROR_CHARACTERS]
        raise api_errors.bad_request(f"strict decoding error: {text}")
    kind.schema.default(new)
    return new, warnings if options.field_validation == "Warn" else ()


def apply_change(
    kind: Kind, change: Change, old: Object, options: WriteOptions
) -> tuple[Object, tuple[str, ...]]:
    """Apply a change and decode the result.

    If decoding the result of a patch fails with code 400, the error is replaced by that of an invalid patch, unless the
    field validation is `Strict`.
    """
    changed = change(old)
    try:
        return decode(kind, changed, options)
    except ApiError as error:
        is_strict = options.field_validation == "Strict"
        if not isinstance(change, Patch) or error.code != 400 or is_strict:
            raise
        _, _, why = error.message.rpartition(f" cannot be handled as a {kind.kind}: ")
        raise api_errors.invalid_patch_result(changed, why) from error


def _reject_metadata(kind: Kind, meta: object) -> NoReturn:
    """Reject metadata that is not an object, as Kubernetes' decoder does."""
    if isinstance(kind.schema, typed.TypedSchema):
        kind.schema.check_types({"metadata": meta}, kind.kind, kind.version)
    _metadata_schema.check_types(cast("Object", meta), kind.kind, kind.version)
    raise AssertionError("metadata of a wrong type was accepted")


def check_identity(kind: Kind, client_object: Object) -> None:
    """Reject an object of another kind or version. Objects of built-in kinds may omit both: the path implies them."""
    for field, expected in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        found = client_object.get(field)
        if not found and kind.is_custom:
            name = field[0].upper() + field[1:]
            raise api_errors.bad_request(f"Object '{name}' is missing in the object provided")
        if found and found != expected and field == "kind" and kind.is_custom:
            error = api_errors.invalid_value("kind", found, f"must be {expected}")
            raise api_errors.invalid(kind.group, str(found), name_of(client_object), [error])
        if found and found != expected:
            label = "API version" if field == "apiVersion" else field
            raise api_errors.bad_request(
                f"the {label} in the data ({found}) does not match the expected {label} ({expected})"
            )


def name_of(client_object: Object) -> str:
    """Return the name of an object that has not been validated; "" if it is not a string."""
    meta = client_object.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else ""
    return name if isinstance(name, str) else ""


def check_namespace(kind: Kind, meta: Object, namespace: str) -> None:
    """Reject an object of another namespace. Set an absent namespace, and remove that of a cluster-scoped object."""
    if not kind.namespaced:
        meta.pop("namespace", None)
    elif meta.setdefault("namespace", namespace) != namespace:
        raise api_errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_path(kind: Kind, meta: Object, namespace: str, name: str) -> None:
    """Reject an update whose object has another name or namespace than the path. Set an absent namespace."""
    if not meta.get("name"):
        raise api_errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if meta["name"] != name:
        raise api_errors.bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
        )
    check_namespace(kind, meta, namespace)


def check_version_and_uid(kind: Kind, meta: Object, old_meta: Object) -> None:
    """Reject an update with another UID or resourceVersion, or without a resourceVersion where one is required."""
    version, uid = meta.get("resourceVersion"), meta.get("uid")
    name = old_meta["name"]
    if not version and not kind.strategy.allows_unconditional_update:
        error = FieldError(
            "metadata.resourceVersion",
            "FieldValueInvalid",
            "Invalid value: 0: must be specified for an update",
        )
        raise api_errors.invalid(kind.group, kind.plural, name, [error])
    if uid and uid != old_meta["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old_meta['uid']}"
        raise api_errors.conflict(kind.group, kind.plural, name, why)
    if version and version != old_meta["resourceVersion"]:
        raise api_errors.conflict(kind.group, kind.plural, name, _STALE)


def schema_errors(kind: Kind, new: Object) -> list[FieldError]:
    """Return the schema errors of a custom resource; none for a built-in kind, which only its strategy validates."""
    return kind.schema.validate(new) if kind.is_custom else []


def status_errors(kind: Kind, new: Object) -> list[FieldError]:
    """Return the schema errors of the status of a custom resource.

    When a status is written, Kubernetes ignores other schema errors, and its messages name fields relative to the
    status.
    """
    errors = [error for error in schema_errors(kind, new) if error.field.startswith(("status", "<nil>"))]
    return [
        msgspec.structs.replace(error, message=error.message.replace("status.", "", 1))
        if f"{error.field} in body" in error.message
        else error
        for error in errors
    ]


def metadata_errors(kind: Kind, new: Object) -> Iterator[FieldError]:
    return metadata.validate_metadata(
        new,
        namespaced=kind.namespaced,
        name_rule=metadata.name_rule(kind.resource),
        allows_any_finalizer=kind.is_custom or kind.group == "apiextensions.k8s.io",
    )


def keep_status(kind: Kind, new: Object, old: Object) -> None:
    for field in kind.strategy.status_fields:
        new.pop(field, None)
        if field in old:
            new[field] = old[field]


def with_new_status(kind: Kind, new: Object, old: Object) -> Object:
    result = {field: value for field, value in old.items() if field not in kind.strategy.status_fields}
    result["metadata"] = dict(old["metadata"])
    for field in kind.strategy.status_fields:
        if field in new:
            result[field] = new[field]
    if kind.strategy.status_updates_metadata:
        for field in ("labels", "annotations", "finalizers"):
            result["metadata"].pop(field, None)
            if field in new["metadata"]:
                result["metadata"][field] = new["metadata"][field]
    return result


def needs_new_generation(kind: Kind, new: Object, old: Object) -> bool:
    has_other_annotations = new["metadata"].get("annotations") != old["metadata"].get("annotations")
    if kind.strategy.annotations_change_generation and has_other_annotations:
        return True
    fields = {*new, *old} - {"metadata", "apiVersion", *kind.strategy.status_fields}
    return any(_generation_value(kind, new, field) != _generation_value(kind, old, field) for field in fields)


def _generation_value(kind: Kind, obj: Object, field: str) -> object:
    uncounted = kind.strategy.fields_without_generation
    if field == "spec" and uncounted:
        return {name: value for name, value in (obj.get("spec") or {}).items() if name not in uncounted}
    return obj.get(field)


def raise_if_invalid(kind: Kind, name: str, errors: Iterable[FieldError]) -> None:
    # Two checks may report the same error.
    found = list(dict.fromkeys(api_errors.first_errors(errors)))
    if found:
        raise api_errors.invalid(kind.group, kind.kind, name, found)


def check_preconditions(kind: Kind, meta: Object, options: DeleteOptions) -> None:
    for field, required, found, change in (
        ("UID", options.uid, meta["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, meta["resourceVersion"], "modified"),
    ):
        if required and required != found:
            why = (
                f"the {field} in the precondition ({required}) does not match the {field} in record ({found})."
                f" The object might have been {change}"
            )
            raise api_errors.conflict(kind.group, kind.kind, meta["name"], why)
