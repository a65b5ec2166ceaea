"""Minimal objects for tests, and their paths."""

from typing import Any, Final

import msgspec

from conformance.client import Client, Json
from conformance.waiting import wait_for, wait_until

GROUPS: Final = {
    "jobs": "batch/v1",
    "deployments": "apps/v1",
    "replicasets": "apps/v1",
    "statefulsets": "apps/v1",
    "leases": "coordination.k8s.io/v1",
    "roles": "rbac.authorization.k8s.io/v1",
    "rolebindings": "rbac.authorization.k8s.io/v1",
}
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def path(plural: str, *rest: str, namespace: str = "", group: str = "") -> str:
    version = group or GROUPS.get(plural, "v1")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return "/".join([f"{root}{inside}/{plural}", *rest])


class Namespace(msgspec.Struct, frozen=True):
    name: str

    def path(self, plural: str, *rest: str, group: str = "") -> str:
        return path(plural, *rest, namespace=self.name, group=group)


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Json:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return body if data is None else {**body, "data": data}


def secret(name: str, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


def pod(name: str, spec: Json = None, **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": pod_spec(**(spec or {})),
    }


def pod_spec(**more: Any) -> Json:
    return {"containers": [{"name": "main", "image": "windlass/test:1"}], **more}


def template(app: str, **spec: Any) -> Json:
    return {"metadata": {"labels": {"app": app}}, "spec": pod_spec(**spec)}


def deployment(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name), **spec},
    }


def stateful_set(name: str, **spec: Any) -> Json:
    common = {"selector": {"matchLabels": {"app": name}}, "template": template(name), "serviceName": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {**common, **spec},
    }


def job(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod_spec(restartPolicy="Never")}, **spec},
    }


def service(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], **spec},
    }


def lease(name: str, **spec: Any) -> Json:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def owner(kind: str, body: Json, **more: Any) -> Json:
    """Return an owner reference to an object."""
    metadata = body["metadata"]
    version = body.get("apiVersion", "v1")
    return {"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], **more}


def free_address(client: Client, namespace: Namespace) -> str:
    """Return a free cluster IP: one that a service has just released."""
    services = namespace.path("services")
    address: str = client.post(services, service("before")).expect(201).body["spec"]["clusterIP"]
    client.delete(f"{services}/before").expect(200)
    return address


# Custom resources

ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SIZED: Final = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}},
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def version(schema: Json, name: str = "v1", **more: Any) -> Json:
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}


def definition(group: str, *versions: Json, scope: str = "Namespaced", **names: Any) -> Json:
    """Return the definition of a kind called Widget in a group."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", **names},
            "versions": list(versions),
        },
    }


def establish(client: Client, body: Json) -> None:
    """Create the definition, and wait until it is established and all versions are served.

    These are independent: a server serves a kind once its names are accepted, and rejects some changes only after it is
    established.
    """
    client.post(DEFINITIONS, body).expect(201)
    where = f"{DEFINITIONS}/{body['metadata']['name']}"
    wait_until(client, where, lambda found: is_established(found.body))
    wait_until_served(client, body)


def is_established(body: Json) -> bool:
    conditions = {each["type"]: each["status"] for each in body["status"].get("conditions") or []}
    return conditions == {"NamesAccepted": "True", "Established": "True"}


def wait_until_served(client: Client, body: Json) -> None:
    spec = body["spec"]
    for each in spec["versions"]:
        if each["served"]:
            served = f"/apis/{spec['group']}/{each['name']}/{spec['names']['plural']}"
            wait_for(f"{served} to be served", lambda at=served: client.get(at).code == 200)  # type: ignore[misc]


class Widgets(msgspec.Struct, frozen=True):
    """The paths and objects of a test's own definition."""

    group: str
    namespace: str

    @property
    def definition(self) -> str:
        return f"{DEFINITIONS}/widgets.{self.group}"

    def path(self, *rest: str, version: str = "v1") -> str:
        return path("widgets", *rest, namespace=self.namespace, group=f"{self.group}/{version}")

    def body(self, name: str, version: str = "v1", **fields: Any) -> Json:
        metadata = {"name": name, **fields.pop("metadata", {})}
        return {"apiVersion": f"{self.group}/{version}", "kind": "Widget", "metadata": metadata, **fields}
