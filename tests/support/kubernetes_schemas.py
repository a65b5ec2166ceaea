"""Validate objects against the models of the `kubernetes` package, without a cluster.

Unknown fields, wrong types and missing fields are errors.
"""

from collections.abc import Iterator
from typing import Any

import framework_files
import pydantic
from kubernetes.client import models

from windlass.model import names
from windlass.model.base import Json

VERSIONS = {
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "Pod": "v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "Secret": "v1",
    "Service": "v1",
    "ServiceAccount": "v1",
    "StatefulSet": "apps/v1",
}


def faults(body: Json) -> Iterator[str]:
    kind, version = body.get("kind"), body.get("apiVersion")
    if kind == names.KIND:
        yield from (
            str(fault)
            for fault in framework_files.load(framework_files.dump(body)).diagnostics
            if fault.is_error
        )
    elif VERSIONS.get(str(kind)) != version:
        yield f"there is no {kind} in {version}"
    else:
        yield from _of_the_model(body)


def _of_the_model(body: Json) -> Iterator[str]:
    model = getattr(models, f"V1{body['kind']}")
    try:
        known = model.model_validate(body, strict=True)
    except pydantic.ValidationError as error:
        for each in error.errors():
            yield f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
    else:
        # The models accept Python names of fields, which no cluster does.
        yield from _other_names(body, known.model_dump(by_alias=True, exclude_unset=True), "")


def _other_names(written: Any, known: Any, path: str) -> Iterator[str]:
    if isinstance(written, dict) and isinstance(known, dict):
        for name, value in written.items():
            if name not in known:
                yield f"{path}{name}: no such field"
            else:
                yield from _other_names(value, known[name], f"{path}{name}.")
    elif isinstance(written, list) and isinstance(known, list):
        for index, (value, other) in enumerate(zip(written, known, strict=True)):
            yield from _other_names(value, other, f"{path}{index}.")
