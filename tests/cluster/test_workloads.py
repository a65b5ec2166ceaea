"""Jobs, Deployments and StatefulSets as API objects, their scale, and Events, Leases and RBAC."""

from typing import Any

import pytest

from conformance.client import Json
from conformance.objects import Namespace, deployment, job, lease, stateful_set, template
from conformance.transcript import RecordingClient

RBAC = "rbac.authorization.k8s.io/v1"

CREATED: dict[str, tuple[str, Json]] = {
    "job": ("jobs", job("a")),
    "job-parallel": (
        "jobs",
        job("a", parallelism=3, completions=6, backoffLimit=1, activeDeadlineSeconds=60),
    ),
    "job-queue": ("jobs", job("a", parallelism=3)),
    "deployment": ("deployments", deployment("a")),
    "deployment-recreate": ("deployments", deployment("a", replicas=0, strategy={"type": "Recreate"})),
    "deployment-percent": (
        "deployments",
        deployment("a", strategy={"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}}),
    ),
    "deployment-expressions": (
        "deployments",
        deployment(
            "a", selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}
        ),
    ),
    "statefulset": ("statefulsets", stateful_set("a")),
    "statefulset-claims": (
        "statefulsets",
        stateful_set(
            "a",
            replicas=2,
            podManagementPolicy="Parallel",
            updateStrategy={"type": "OnDelete"},
            volumeClaimTemplates=[
                {
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        ),
    ),
}


@pytest.mark.parametrize(("plural", "body"), CREATED.values(), ids=CREATED)
def test_workload_defaults(api: RecordingClient, namespace: Namespace, plural: str, body: Json) -> None:
    created = api.post(namespace.path(plural), body).expect(201).body
    assert created["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 30
    api.delete(namespace.path(plural, "a"), propagationPolicy="Background").expect(200)


def test_job_gets_generated_selector(api: RecordingClient, namespace: Namespace) -> None:
    created = api.unrecorded.post(namespace.path("jobs"), job("a")).expect(201).body
    uid = created["metadata"]["uid"]
    assert uid in created["spec"]["selector"]["matchLabels"].values()
    labels = created["spec"]["template"]["metadata"]["labels"]
    assert created["spec"]["selector"]["matchLabels"].items() <= labels.items()


CHANGES: dict[str, tuple[str, Json, Any, int]] = {
    "job-parallelism": ("jobs", job("a"), {"parallelism": 5}, 200),
    "job-completions": ("jobs", job("a", completions=2), {"completions": 3}, 422),
    "job-template": ("jobs", job("a"), {"template": {"spec": {"restartPolicy": "OnFailure"}}}, 422),
    "job-selector": ("jobs", job("a"), {"selector": {"matchLabels": {"a": "b"}}}, 422),
    "deployment-template": ("deployments", deployment("a"), {"template": template("a", hostname="x")}, 200),
    "deployment-selector": ("deployments", deployment("a"), {"selector": {"matchLabels": {"app": "b"}}}, 422),
    "statefulset-replicas": ("statefulsets", stateful_set("a"), {"replicas": 4}, 200),
    "statefulset-service": ("statefulsets", stateful_set("a"), {"serviceName": "b"}, 422),
    "statefulset-template": (
        "statefulsets",
        stateful_set("a"),
        {"template": template("a", hostname="x")},
        200,
    ),
}


@pytest.mark.parametrize(("plural", "body", "spec", "code"), CHANGES.values(), ids=CHANGES)
def test_only_mutable_spec_fields_change(
    api: RecordingClient, namespace: Namespace, plural: str, body: Json, spec: Any, code: int
) -> None:
    items = namespace.path(plural)
    api.unrecorded.post(items, body).expect(201)
    api.patch(f"{items}/a", {"spec": spec}).expect(code)


SCALED = {"deployments": deployment("a", replicas=2), "statefulsets": stateful_set("a", replicas=2)}


@pytest.mark.parametrize(("plural", "body"), SCALED.items(), ids=SCALED)
def test_scale_subresource(api: RecordingClient, namespace: Namespace, plural: str, body: Json) -> None:
    items = namespace.path(plural)
    api.unrecorded.post(items, body).expect(201)
    scale = api.get(f"{items}/a/scale").expect(200).body
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 2})
    changed = api.put(f"{items}/a/scale", {**scale, "spec": {"replicas": 4}}).expect(200)
    assert changed.body["spec"] == {"replicas": 4}
    api.put(f"{items}/a/scale", {**scale, "spec": {"replicas": 5}}).expect(409)
    api.patch(f"{items}/a/scale", {"spec": {"replicas": 6}}).expect(200)
    api.patch(f"{items}/a/scale", {"spec": {"replicas": -1}}).expect(422)
    assert api.unrecorded.get(f"{items}/a").body["spec"]["replicas"] == 6
    api.get(f"{items}/missing/scale").expect(404)


EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "a"},
    "reason": "Started",
    "message": "it began",
    "type": "Normal",
    "count": 1,
    "source": {"component": "test"},
    "firstTimestamp": "2001-01-01T00:00:00Z",
    "lastTimestamp": "2001-01-01T00:00:00Z",
}


def test_events_are_created_selected_and_deleted(api: RecordingClient, namespace: Namespace) -> None:
    events = namespace.path("events")
    about = {"kind": "Pod", "name": "p", "namespace": namespace.name, "apiVersion": "v1"}
    api.post(events, {**EVENT, "involvedObject": about}).expect(201)
    other = {**EVENT, "metadata": {"name": "b"}, "involvedObject": {**about, "name": "q"}, "type": "Warning"}
    api.post(events, other).expect(201)
    for selector in (
        "involvedObject.name=p",
        "type=Normal",
        "involvedObject.kind=Pod,reason=Started,type!=Warning",
    ):
        assert api.unrecorded.get(events, fieldSelector=selector).expect(200).names == ["a"]
    api.patch(f"{events}/a", {"count": 2}).expect(200)
    elsewhere = {**EVENT, "metadata": {"name": "c"}, "involvedObject": {**about, "namespace": "elsewhere"}}
    api.post(events, elsewhere).expect(422)
    api.delete(events, fieldSelector="involvedObject.name=p").expect(200)
    assert api.get(events).names == ["b"]


def test_lease_is_renewed_with_current_version_only(api: RecordingClient, namespace: Namespace) -> None:
    leases = namespace.path("leases")
    held = lease(
        "a",
        holderIdentity="me",
        leaseDurationSeconds=15,
        acquireTime="2001-01-01T00:00:00.000000Z",
        renewTime="2001-01-01T00:00:00.123456Z",
        leaseTransitions=1,
    )
    created = api.unrecorded.post(leases, held).expect(201).body
    assert created["spec"] == held["spec"]
    renewed = {**created, "spec": {**created["spec"], "renewTime": "2001-01-01T00:00:01.500000Z"}}
    found = api.unrecorded.put(f"{leases}/a", renewed).expect(200).body
    assert found["spec"]["renewTime"] == "2001-01-01T00:00:01.500000Z"
    api.put(f"{leases}/a", renewed).expect(409)


def test_roles_and_bindings_are_validated(api: RecordingClient, namespace: Namespace) -> None:
    roles, bindings = namespace.path("roles"), namespace.path("rolebindings")
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    role = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "a"}, "rules": rules}
    api.post(roles, role).expect(201)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": namespace.name}
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "a"},
        "roleRef": reference,
        "subjects": [subject],
    }
    api.post(bindings, binding).expect(201)
    api.post(bindings, {**binding, "metadata": {"name": "b"}, "roleRef": {"kind": "Role"}}).expect(422)
    api.patch(bindings + "/a", {"roleRef": {"name": "b"}}).expect(422)
    api.patch(f"{roles}/a", {"rules": []}).expect(200)


def test_cluster_roles_and_bindings_are_stored(api: RecordingClient, unique: str) -> None:
    roles, bindings = f"/apis/{RBAC}/clusterroles", f"/apis/{RBAC}/clusterrolebindings"
    rules = [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]
    api.post(
        roles, {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": unique}, "rules": rules}
    ).expect(201)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": unique}
    users = [{"kind": "User", "name": "someone"}]
    body = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": unique},
        "roleRef": reference,
        "subjects": users,
    }
    api.post(bindings, body).expect(201)
    api.delete(f"{bindings}/{unique}").expect(200)
    api.delete(f"{roles}/{unique}").expect(200)
