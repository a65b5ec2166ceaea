"""What every kind's schema can do, whether it comes from a custom resource's definition or from Kubernetes' own types.

`structural` compiles the former, `typed` the latter.
"""

from typing import Any, Protocol

from windlass.k8s.api_errors import FieldError


class Schema(Protocol):
    """What a kind's objects look like, compiled once.

    All three change or read the whole object (apiVersion, kind, metadata too).
    """

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Drop what the schema does not know, in place; the paths of what was dropped."""
        ...

    def default(self, obj: dict[str, Any]) -> None:
        """Fill in constant defaults, in place."""
        ...

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """Every error in types, required fields, ranges and patterns."""
        ...
