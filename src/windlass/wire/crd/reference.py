"""The CustomResourceDefinition of the reference controller, Microsoft's FrameworkController.

It is independent of the model, because it must stay as that controller creates it. Migration back to the reference
needs it.
"""

from windlass.model import names
from windlass.model.base import Json

NAME_PATTERN = "^[a-z0-9]{1,63}$"
"""The pattern of names of Frameworks and roles. Windlass also allows hyphens in names of Frameworks."""

_KEPT: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def reference_crd(group: str = names.CONTROLLER_GROUP) -> Json:
    """Return the definition. It has no status subresource: the reference updates the whole object (statements 1, 2)."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": names.KIND, "plural": names.PLURAL},
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _framework()},
                }
            ],
        },
    }


def _framework() -> Json:
    return _object(
        apiVersion={"type": "string"},
        kind={"type": "string"},
        metadata=_object(name=_name()),
        spec=_object(
            description={"type": "string"},
            executionType={"type": "string", "enum": ["Create", "Start", "Stop"]},
            retryPolicy=_retry_policy(),
            taskRoles={"type": "array", "items": _task_role()},
        ),
        status={**_KEPT, "nullable": True},
    )


def _task_role() -> Json:
    return _object(
        name=_name(),
        taskNumber={"type": "integer", "minimum": 0, "maximum": 10_000},
        frameworkAttemptCompletionPolicy=_object(
            minFailedTaskCount={"type": "integer", "minimum": -1},
            minSucceededTaskCount={"type": "integer", "minimum": -1},
        ),
        task=_object(
            retryPolicy=_retry_policy(),
            podGracefulDeletionTimeoutSec={"type": "integer", "nullable": True},
            pod=dict(_KEPT),
        ),
    )


def _retry_policy() -> Json:
    return _object(
        fancyRetryPolicy={"type": "boolean"},
        maxRetryCount={"type": "integer", "minimum": -2},
    )


def _name() -> Json:
    return {"type": "string", "pattern": NAME_PATTERN}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}
