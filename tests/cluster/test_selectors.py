"""Label and field selectors in lists."""

import pytest

from conformance.objects import (
    SIZED,
    Namespace,
    Widgets,
    config_map,
    definition,
    establish,
    job,
    pod,
    secret,
    version,
)
from conformance.transcript import RecordingClient

LABELLED = {
    "bare": {},
    "blue": {"app": "blue"},
    "blue-old": {"app": "blue", "age": "old"},
    "red": {"app": "red", "example.com/team": "one"},
    "red-old": {"app": "red", "age": "old"},
    "empty": {"app": ""},
}

LABELS: dict[str, tuple[str, list[str]]] = {
    "none": ("", ["bare", "blue", "blue-old", "empty", "red", "red-old"]),
    "equal": ("app=blue", ["blue", "blue-old"]),
    "equal-twice": ("app==blue", ["blue", "blue-old"]),
    "unequal": ("app!=blue", ["bare", "empty", "red", "red-old"]),
    "in": ("app in (blue, red)", ["blue", "blue-old", "red", "red-old"]),
    "in-one": ("app in (blue)", ["blue", "blue-old"]),
    "notin": ("app notin (blue,red)", ["bare", "empty"]),
    "exists": ("age", ["blue-old", "red-old"]),
    "absent": ("!age", ["bare", "blue", "empty", "red"]),
    "both": ("app=red,age", ["red-old"]),
    "spaces": (" app = red , !age ", ["red"]),
    "empty-value": ("app=", ["empty"]),
    "qualified": ("example.com/team=one", ["red"]),
    "contradiction": ("app=red,app=blue", []),
    "nobody": ("app=green", []),
}

NO_SELECTORS = {
    "two-equals": "a=b=c",
    "no-key": "=b",
    "bad-key": "a b",
    "bad-value": "a=b/c",
    "open-set": "a in (b",
    "empty-set": "a in ()",
    "comma": "a,",
    "only-comma": ",",
    "greater": "a>b",
    "long-value": "a=" + "x" * 64,
    "long-key": "x" * 64,
}


@pytest.mark.parametrize(("selector", "names"), LABELS.values(), ids=LABELS)
def test_label_selectors(api: RecordingClient, namespace: Namespace, selector: str, names: list[str]) -> None:
    maps = namespace.path("configmaps")
    for name, labels in LABELLED.items():
        api.unrecorded.post(maps, config_map(name, labels=labels)).expect(201)
    found = api.unrecorded.get(maps, labelSelector=selector).expect(200)
    api.note("names", found.names)
    assert found.names == names


@pytest.mark.parametrize("selector", NO_SELECTORS.values(), ids=NO_SELECTORS)
def test_invalid_label_selector_is_rejected(
    api: RecordingClient, namespace: Namespace, selector: str
) -> None:
    api.get(namespace.path("configmaps"), labelSelector=selector)


def test_label_selector_compares_numbers(api: RecordingClient, namespace: Namespace) -> None:
    maps = namespace.path("configmaps")
    for number in ("1", "5", "9"):
        api.unrecorded.post(maps, config_map(f"n{number}", labels={"n": number}))
    assert api.get(maps, labelSelector="n>1,n<9").names == ["n5"]


PODS = {
    "waiting": {},
    "placed": {"nodeName": "node-1"},
    "once": {"nodeName": "node-2", "restartPolicy": "Never"},
    "named": {"serviceAccountName": "robot", "schedulerName": "other"},
}
FIELDS: dict[str, tuple[str, list[str]]] = {
    "name": ("metadata.name=once", ["once"]),
    "not-name": ("metadata.name!=once", ["named", "placed", "waiting"]),
    "node": ("spec.nodeName=node-1", ["placed"]),
    "no-node": ("spec.nodeName=", ["named", "waiting"]),
    "restart": ("spec.restartPolicy=Never", ["once"]),
    "scheduler": ("spec.schedulerName=other", ["named"]),
    "account": ("spec.serviceAccountName=robot", ["named"]),
    "phase": ("status.phase=Pending", ["named", "once", "placed", "waiting"]),
    "not-phase": ("status.phase!=Pending,status.phase!=Failed", []),
    "address": ("status.podIP=10.1.2.3", []),
    "two": ("spec.nodeName!=,spec.restartPolicy!=Never", ["placed"]),
    "double": ("spec.nodeName==node-2", ["once"]),
}


@pytest.mark.parametrize(("selector", "names"), FIELDS.values(), ids=FIELDS)
def test_pod_field_selectors(
    api: RecordingClient, namespace: Namespace, selector: str, names: list[str]
) -> None:
    pods = namespace.path("pods")
    for name, spec in PODS.items():
        api.unrecorded.post(pods, pod(name, spec)).expect(201)
    found = api.unrecorded.get(pods, fieldSelector=selector).expect(200)
    api.note("names", found.names)
    assert found.names == names


NO_FIELDS = {
    "configmaps": "data.k=1",
    "pods": "spec.hostname=a",
    "secrets": "data=1",
    "jobs": "spec.parallelism=1",
    "deployments": "spec.replicas=1",
    "leases": "spec.holderIdentity=a",
}


@pytest.mark.parametrize(("plural", "selector"), NO_FIELDS.items(), ids=NO_FIELDS)
def test_unsupported_field_selector_is_rejected(
    api: RecordingClient, namespace: Namespace, plural: str, selector: str
) -> None:
    api.get(namespace.path(plural), fieldSelector=selector).expect(400)


@pytest.mark.parametrize(
    "selector", ["metadata.name", "metadata.name in (a)", "metadata.name>a"], ids=["bare", "set", "greater"]
)
def test_invalid_field_selector_is_rejected(
    api: RecordingClient, namespace: Namespace, selector: str
) -> None:
    api.get(namespace.path("configmaps"), fieldSelector=selector).expect(400)


def test_field_selectors_of_other_kinds(api: RecordingClient, namespace: Namespace, unique: str) -> None:
    secrets, jobs = namespace.path("secrets"), namespace.path("jobs")
    api.unrecorded.post(secrets, secret("plain"))
    api.unrecorded.post(secrets, secret("typed", type="example.com/kind"))
    assert api.get(secrets, fieldSelector="type=example.com/kind").names == ["typed"]
    api.unrecorded.post(jobs, job("a")).expect(201)
    api.unrecorded.post(jobs, job("b")).expect(201)
    api.unrecorded.patch(f"{jobs}/b/status", {"status": {"succeeded": 1}}).expect(200)
    assert api.unrecorded.get(jobs, fieldSelector="status.successful=1").expect(200).names == ["b"]
    spaces = api.unrecorded.get(
        "/api/v1/namespaces", fieldSelector=f"metadata.name={unique},status.phase=Active"
    )
    assert spaces.names == [unique]


def test_list_across_all_namespaces(api: RecordingClient, namespace: Namespace, unique: str) -> None:
    for name in ("a", "b"):
        api.unrecorded.post(namespace.path("configmaps"), config_map(name, labels={"of": unique}))
    found = api.get("/api/v1/configmaps", labelSelector=f"of={unique}").expect(200)
    assert found.names == ["a", "b"]
    assert api.get(
        "/api/v1/configmaps", fieldSelector=f"metadata.namespace={unique},metadata.name=a"
    ).names == ["a"]


def test_custom_resource_selectors(api: RecordingClient, widgets: Widgets) -> None:
    establish(api.unrecorded, definition(widgets.group, version(SIZED)))
    for name, labels in (("a", {"app": "blue"}), ("b", {"app": "red"}), ("c", {})):
        api.unrecorded.post(widgets.path(), widgets.body(name, metadata={"labels": labels})).expect(201)
    assert api.get(widgets.path(), labelSelector="app in (red)").names == ["b"]
    assert api.get(widgets.path(), fieldSelector="metadata.name=c").names == ["c"]
    api.get(widgets.path(), fieldSelector="spec.size=1").expect(400)
