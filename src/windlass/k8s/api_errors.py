"""Errors of the Kubernetes API as `Status` objects, and validation errors of fields."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

# Validation stops when it has found this number of errors, or when their texts exceed this size.
MAX_ERRORS = 100
MAX_ERROR_CHARACTERS = 64 * 1024
# Maximum length of a value in a message.
_MAX_VALUE_CHARACTERS = 10 * 1024


class FieldError(msgspec.Struct, frozen=True):
    """A validation error of a field."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def first_errors(errors: Iterable[FieldError]) -> list[FieldError]:
    """Return the errors up to the limits, without computing the others."""
    found: list[FieldError] = []
    size = 0
    for error in errors:
        found.append(error)
        size += len(error.field) + len(error.message)
        if len(found) == MAX_ERRORS or size > MAX_ERROR_CHARACTERS:
            break
    return found


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(
        field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value"
    )


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {format_value(value)}: {detail}")


def wrong_type(field: str, value: object, detail: str) -> FieldError:
    return FieldError(field, "FieldValueTypeInvalid", f"Invalid value: {format_value(value)}: {detail}")


def not_supported(field: str, value: object, valid: Iterable[str]) -> FieldError:
    choices = ", ".join(f'"{choice}"' for choice in valid)
    return FieldError(
        field,
        "FieldValueNotSupported",
        f"Unsupported value: {format_value(value)}: supported values: {choices}",
    )


def duplicate(field: str, value: object) -> FieldError:
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {format_value(value)}")


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def too_many(field: str, count: int, limit: int) -> FieldError:
    items = "item" if limit == 1 else "items"
    return FieldError(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}")


def too_long(field: str, limit: int) -> FieldError:
    unit = "byte" if limit == 1 else "bytes"
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} {unit}")


def json_type(value: Any) -> str:
    """Return the type of a JSON value as messages of Kubernetes name it."""
    names = {type(None): "null", bool: "bool", str: "string", dict: "object", list: "array"}
    return names.get(type(value), "number")


def format_value(value: object) -> str:
    """Return a value as messages of Kubernetes show it, but shorten a long one."""
    if isinstance(value, str):
        return quoted(_shortened(value))
    return _shortened(msgspec.json.encode(value).decode())


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[:_MAX_VALUE_CHARACTERS]}..."


# The letters after the backslash in the escape sequences of Go.
_ESCAPES = dict(zip('\a\b\f\n\r\t\v"\\', 'abfnrtv"\\', strict=True))


def quoted(text: str) -> str:
    """Return a string in double quotes, escaped as by Go's `%q`."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    if character.isprintable():
        return character
    number = ord(character)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


class ApiError(Exception):
    """The error of a rejected request. `status()` returns the body of the response."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def status(self) -> dict[str, Any]:
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason or None,
            "details": self.details,
            "code": self.code,
        }
        return {field: value for field, value in body.items() if value is not None}


def resource_name(group: str, plural: str) -> str:
    """Return the name of a resource in messages: `pods`, `jobs.batch`."""
    return f"{plural}.{group}" if group else plural


def details_of(group: str, plural: str, name: str) -> dict[str, str]:
    """Return the `details` of a Status about an object."""
    details = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}


def not_found(group: str, plural: str, name: str) -> ApiError:
    message = f"{resource_name(group, plural)} {quoted(name)} not found"
    return ApiError(404, "NotFound", message, details_of(group, plural, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str) -> ApiError:
    message = f"{resource_name(group, plural)} {quoted(name)} already exists"
    return ApiError(409, "AlreadyExists", message, details_of(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    message = f"Operation cannot be fulfilled on {resource_name(group, plural)} {quoted(name)}: {why}"
    return ApiError(409, "Conflict", message, details_of(group, plural, name))


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    message = f"{resource_name(group, plural)} {quoted(name)} is forbidden: {why}"
    return ApiError(403, "Forbidden", message, details_of(group, plural, name))


def invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> ApiError:
    errors = first_errors(errors)
    texts = [str(error) for error in errors]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]
    message = f"{resource_name(group, kind)} {quoted(name)} is invalid: {text}"
    return ApiError(422, "Invalid", message, details_of(group, kind, name) | {"causes": causes})


def invalid_patch_result(result: object, why: str) -> ApiError:
    """Return the error for a patch whose result is not an object of the expected kind."""
    message = f"Invalid value: {quoted(format_value(result))}: {why}"
    cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
    return ApiError(422, "Invalid", f' "" is invalid: patch: {message}', {"causes": [cause]})


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def unsupported_patch_type() -> ApiError:
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", message)


def too_large(limit: int) -> ApiError:
    message = f"Request entity too large: limit is {limit}"
    return ApiError(413, "RequestEntityTooLarge", message)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")
