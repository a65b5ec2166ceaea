"""The headless Service by which the tasks of a Framework have names, before they are ready and while they are tried
again."""

from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.objects import owner


def service(framework: Framework) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.service_name(framework.name),
            "namespace": framework.namespace,
            "labels": {names.FRAMEWORK_NAME: framework.name},
            "ownerReferences": [
                owner.controller(framework.api_version, names.KIND, framework.name, framework.uid)
            ],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.FRAMEWORK_NAME: framework.name},
        },
    }
