"""The objects of a Framework attempt besides its pods: ConfigMap, Service and Gang."""

from collections.abc import Mapping

import msgspec

from windlass.discovery import gangs
from windlass.model import names
from windlass.model.base import Json, manifest
from windlass.model.framework import Framework
from windlass.model.gang import API_VERSION as GANG_API_VERSION


def config_map(framework: Framework, ports: Mapping[str, int] | None = None) -> Json:
    """Return the ConfigMap of the current attempt (statement 5 of docs/behaviours.md). It has no data.

    `ports` maps each role to the port of its first task, if pods share one network. The ConfigMap stores it for a
    restarted controller.
    """
    if framework.status is None:
        raise ValueError(f"Framework {framework.namespace}/{framework.name} has no status and no attempt yet")
    name = names.config_map_name(framework.name)
    metadata = {
        **_metadata(framework, name, _framework_reference(framework)),
        "annotations": {
            names.FRAMEWORK_NAMESPACE: framework.namespace,
            names.FRAMEWORK_NAME: framework.name,
            names.CONFIGMAP_NAME: name,
            names.FRAMEWORK_UID: framework.uid,
            names.FRAMEWORK_ATTEMPT_ID: str(framework.status.attempt_status.id),
            **({names.PORTS_ANNOTATION: msgspec.json.encode(ports).decode()} if ports else {}),
        },
        "finalizers": [names.FOREGROUND_FINALIZER],
    }
    return manifest("v1", "ConfigMap", metadata)


def service(framework: Framework) -> Json:
    """Return the headless Service that gives tasks DNS names, also before they are ready and during retries."""
    metadata = _metadata(framework, names.service_name(framework.name), _framework_reference(framework))
    selector = {names.FRAMEWORK_NAME: framework.name}
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    return manifest("v1", "Service", metadata, spec=spec)


def gang(framework: Framework, first_ports: Mapping[str, int] | None = None) -> Json:
    """Return the Gang object, owned by the ConfigMap of the attempt. Every task must have an address."""
    spec = gangs.gang_of(framework, first_ports)
    uid = framework.status and framework.status.attempt_status.config_map_uid
    if spec is None or not uid:
        raise ValueError(f"a task of Framework {framework.namespace}/{framework.name} has no address yet")
    owner = owner_reference("v1", "ConfigMap", names.config_map_name(framework.name), uid)
    metadata = _metadata(framework, names.gang_name(framework.name, uid), owner)
    return manifest(GANG_API_VERSION, names.GANG_KIND, metadata, spec=msgspec.to_builtins(spec))


def _metadata(framework: Framework, name: str, owner: Json) -> Json:
    return {
        "name": name,
        "namespace": framework.namespace,
        "labels": {names.FRAMEWORK_NAME: framework.name},
        "ownerReferences": [owner],
    }


def _framework_reference(framework: Framework) -> Json:
    return owner_reference(framework.api_version, names.KIND, framework.name, framework.uid)


def owner_reference(api_version: str, kind: str, name: str, uid: str) -> Json:
    """Return an owner reference: the object is deleted when its owner is deleted.

    `blockOwnerDeletion` keeps an owner that is deleted in the foreground until this object is deleted.
    """
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
