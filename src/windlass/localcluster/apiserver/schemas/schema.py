"""The interface of schemas, which `structural` and `typed` implement."""

from typing import Any, Protocol

from windlass.k8s.api_errors import FieldError


class Schema(Protocol):
    """A compiled schema. All methods get the whole object, with apiVersion, kind and metadata."""

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Remove unknown fields in place, and return their paths."""
        ...

    def default(self, obj: dict[str, Any]) -> None:
        """Set constant defaults in place."""
        ...

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """Return the errors in types, required fields, ranges and patterns."""
        ...
