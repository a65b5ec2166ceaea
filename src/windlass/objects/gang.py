"""The Gang of an attempt, as it is published for the barriers of its pods."""

from collections.abc import Mapping

import msgspec

from windlass.discovery import gangs
from windlass.model import gang as model
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.objects import owner


def gang(framework: Framework, own_ports: Mapping[str, int] | None = None) -> Json:
    """It goes with the ConfigMap of its attempt. Every task must have its address."""
    spec = gangs.gang_of(framework, own_ports)
    uid = framework.status and framework.status.attempt_status.config_map_uid
    if spec is None or not uid:
        raise ValueError(f"a task of the Framework {framework.namespace}/{framework.name} has no address yet")
    return {
        "apiVersion": model.API_VERSION,
        "kind": names.GANG_KIND,
        "metadata": {
            "name": names.gang_name(framework.name, uid),
            "namespace": framework.namespace,
            "labels": {names.FRAMEWORK_NAME: framework.name},
            "ownerReferences": [
                owner.controller("v1", "ConfigMap", names.config_map_name(framework.name), uid)
            ],
        },
        "spec": msgspec.to_builtins(spec),
    }
