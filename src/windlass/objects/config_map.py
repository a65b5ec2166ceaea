"""The ConfigMap that stands for a Framework attempt: it owns the attempt's pods, and its UID names the attempt."""

from collections.abc import Mapping

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.objects import owner


def config_map(framework: Framework, ports: Mapping[str, int] | None = None) -> Json:
    """The ConfigMap of the current attempt (statement 5). It holds no data: what counts is that it exists.

    `ports` are those of the attempt's tasks, where the pods share one network: they have to outlive the controller.
    """
    if framework.status is None:
        raise ValueError(
            f"the Framework {framework.namespace}/{framework.name} has no status yet, so it has no attempt"
        )
    name = names.config_map_name(framework.name)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": framework.namespace,
            "labels": {names.FRAMEWORK_NAME: framework.name},
            "annotations": {
                names.FRAMEWORK_NAMESPACE: framework.namespace,
                names.FRAMEWORK_NAME: framework.name,
                names.CONFIGMAP_NAME: name,
                names.FRAMEWORK_UID: framework.uid,
                names.FRAMEWORK_ATTEMPT_ID: str(framework.status.attempt_status.id),
                **({names.PORTS_ANNOTATION: msgspec.json.encode(ports).decode()} if ports else {}),
            },
            "finalizers": [names.FOREGROUND_FINALIZER],
            "ownerReferences": [
                owner.controller(framework.api_version, names.KIND, framework.name, framework.uid)
            ],
        },
    }
