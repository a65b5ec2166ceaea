"""The permissions of the controller are sufficient and minimal, and the manifests grant exactly these."""

from collections.abc import Callable, Iterable
from pathlib import Path

import builders
import grants
import msgspec
import pytest
from builders import NOW
from grants import Grant
from tests.controller.ports import Bench, failure

from windlass.decide import initial_status
from windlass.install import manifests, roles
from windlass.install.options import InstallOptions
from windlass.kubeapi import requests
from windlass.kubeapi.requests import Request
from windlass.kubeapi.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    GANGS,
    LEASES,
    NAMESPACES,
    PODS,
    SERVICES,
    Resource,
    frameworks,
)
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.settings import History, Settings
from windlass.objects.attempt import config_map, gang, service
from windlass.objects.pod import pod

replace = msgspec.structs.replace

LAUNCHER = frameworks(names.LAUNCHER_GROUP)
CONTROLLER = frameworks(names.CONTROLLER_GROUP)
ALL_NAMESPACES = Settings()
TWO = Settings(namespaces=("team-a", "team-b"))
MANAGING = Settings(manage_crds=True)
ALL = Settings(manage_crds=True, history=History(enabled=True, read_logs=True))
DEFINITION = "frameworks.launcher.microsoft.com"

LABEL = f"{names.FRAMEWORK_NAME}=digits"
DEFAULT_REQUESTS = (
    *(requests.list_page(one) for one in (LAUNCHER, CONTROLLER)),
    *(requests.watch(one, resource_version="7") for one in (LAUNCHER, CONTROLLER)),
    *(requests.get(one, "team-a", "digits") for one in (LAUNCHER, CONTROLLER)),
    *(
        requests.delete(one, "team-a", "digits", uid="u", propagation="Foreground")
        for one in (LAUNCHER, CONTROLLER)
    ),
    *(
        requests.json_patch(one, "team-a", "digits", b"[]", subresource="status")
        for one in (LAUNCHER, CONTROLLER)
    ),
    *(
        requests.merge_patch(one, "team-a", "digits", b"{}", subresource="status")
        for one in (LAUNCHER, CONTROLLER)
    ),
    requests.list_page(PODS, label_selector=names.FRAMEWORK_NAME),
    requests.watch(PODS, label_selector=names.FRAMEWORK_NAME),
    requests.list_page(PODS, "team-a", label_selector=LABEL),
    requests.create(PODS, "team-a", b"{}"),
    requests.delete(PODS, "team-a", "digits-worker-0", uid="u"),
    requests.delete_collection(PODS, "team-a", "windlass.dev/attempt=u"),
    requests.list_page(CONFIG_MAPS, label_selector=names.FRAMEWORK_NAME),
    requests.watch(CONFIG_MAPS, label_selector=names.FRAMEWORK_NAME),
    requests.create(CONFIG_MAPS, "team-a", b"{}"),
    requests.delete(CONFIG_MAPS, "team-a", "digits-attempt", uid="u", propagation="Background"),
    requests.create(EVENTS, "team-a", b"{}"),
    requests.get(LEASES, "windlass-system", "windlass-controller"),
    requests.create(LEASES, "windlass-system", b"{}"),
    requests.replace(LEASES, "windlass-system", "windlass-controller", b"{}"),
    *(requests.get(CUSTOM_RESOURCE_DEFINITIONS, "", f"frameworks.{group}") for group in names.GROUPS),
    requests.get(CUSTOM_RESOURCE_DEFINITIONS, "", "gangs.windlass.dev"),
)
"""One of each kind of request of the controller, except those of `service_and_gang_requests`."""
FINALIZERS = {
    Grant(names.LAUNCHER_GROUP, "frameworks/finalizers", "update", "team-a", "digits"),
    Grant(names.CONTROLLER_GROUP, "frameworks/finalizers", "update", "team-a", "digits"),
    Grant("", "configmaps/finalizers", "update", "team-a", "digits-attempt"),
}


@pytest.mark.parametrize(
    ("request_", "needed"),
    [
        (requests.list_page(LAUNCHER), Grant("launcher.microsoft.com", "frameworks", "list")),
        (
            requests.json_patch(LAUNCHER, "a", "f", b"[]", subresource="status"),
            Grant("launcher.microsoft.com", "frameworks/status", "patch", "a", "f"),
        ),
        (requests.watch(PODS, "a"), Grant("", "pods", "watch", "a")),
        (requests.create(PODS, "a", b"{}"), Grant("", "pods", "create", "a")),
        (requests.delete(PODS, "a", "f-w-0"), Grant("", "pods", "delete", "a", "f-w-0")),
        (requests.delete_collection(PODS, "a", "x=y"), Grant("", "pods", "deletecollection", "a")),
        (
            requests.get(CUSTOM_RESOURCE_DEFINITIONS, "", DEFINITION),
            Grant("apiextensions.k8s.io", "customresourcedefinitions", "get", "", DEFINITION),
        ),
        (
            requests.replace(LEASES, "w", "windlass:x", b"{}"),
            Grant("coordination.k8s.io", "leases", "update", "w", "windlass:x"),
        ),
    ],
    ids=str,
)
def test_request_needs_one_grant(request_: Request, needed: Grant) -> None:
    assert grants.needed_by(request_) == needed


@pytest.mark.parametrize(
    ("granted", "needed", "is_allowed"),
    [
        (Grant("", "pods", "list"), Grant("", "pods", "list"), True),
        (Grant("", "pods", "list"), Grant("", "pods", "list", "a"), True),
        (Grant("", "pods", "list", "a"), Grant("", "pods", "list", "a"), True),
        (Grant("", "pods", "list", "a"), Grant("", "pods", "list", "b"), False),
        (Grant("", "pods", "list", "a"), Grant("", "pods", "list"), False),
        (Grant("", "pods", "delete"), Grant("", "pods", "delete", "a", "p"), True),
        (Grant("", "pods", "delete", "", "p"), Grant("", "pods", "delete", "a", "p"), True),
        (Grant("", "pods", "delete", "", "p"), Grant("", "pods", "delete", "a", "q"), False),
        (Grant("", "pods", "delete", "", "p"), Grant("", "pods", "deletecollection", "a"), False),
        (Grant("", "pods", "list"), Grant("", "pods/log", "list"), False),
        (Grant("apps", "pods", "list"), Grant("", "pods", "list"), False),
    ],
)
def test_grant_allows_matching_request(granted: Grant, needed: Grant, is_allowed: bool) -> None:
    assert granted.allows(needed) is is_allowed


def service_and_gang_requests(namespace: str) -> list[Request]:
    """Return the requests of the controller if the Service and the Gang already exist."""
    job = builders.framework("digits", namespace=namespace)
    owned = msgspec.json.encode(service(job))
    bench = Bench(failure(409, "AlreadyExists"), owned, failure(409, "AlreadyExists"), b"{}")
    bench.run(lambda port: port.create_service(job, service(job)))
    bench.run(lambda port: port.publish_gang(namespace, {"metadata": {"name": "digits-u"}, "spec": {}}))
    assert bench.answers == []
    return bench.sent


def test_all_requests_are_granted_and_no_grant_is_unused() -> None:
    granted = grants.granted("windlass-system", ALL_NAMESPACES)
    sent = (*DEFAULT_REQUESTS, *service_and_gang_requests("team-a"))
    needed = {grants.needed_by(request) for request in sent} | FINALIZERS

    assert grants.missing(granted, needed) == frozenset()
    assert grants.unused(granted, needed) == frozenset()


def test_limited_controller_has_no_grants_in_other_namespaces() -> None:
    granted = grants.granted("windlass-system", TWO)
    sent = (*DEFAULT_REQUESTS, *service_and_gang_requests("team-b"))
    needed = {grants.needed_by(request) for request in sent if request.namespace} | FINALIZERS

    assert grants.missing(granted, needed) == frozenset()
    places = {grant.namespace for grant in granted}
    assert places == {"", "team-a", "team-b", "windlass-system"}
    cluster_wide = {grant.resource for grant in granted if not grant.namespace}
    assert cluster_wide == {"customresourcedefinitions"}
    assert grants.missing(granted, {Grant("", "pods", "create", "team-c")})


def test_missing_and_unused_grants_are_found() -> None:
    granted = {Grant("", "pods", "list"), Grant("", "secrets", "get")}
    needed = {Grant("", "pods", "list", "a"), Grant("", "pods", "watch", "a")}

    assert grants.missing(granted, needed) == {Grant("", "pods", "watch", "a")}
    assert grants.unused(granted, needed) == {Grant("", "secrets", "get")}


@pytest.mark.parametrize(
    ("settings", "removed", "added"),
    [
        (ALL_NAMESPACES, set(), set()),
        (Settings(events=False), {("events", "create")}, set()),
        (Settings(leader_election=False), {("leases", verb) for verb in ("get", "create", "update")}, set()),
        (MANAGING, set(), {("customresourcedefinitions", verb) for verb in ("create", "update")}),
    ],
)
def test_disabled_feature_is_not_granted(
    settings: Settings, removed: set[tuple[str, str]], added: set[tuple[str, str]]
) -> None:
    def verbs(settings: Settings) -> set[tuple[str, str]]:
        return {(grant.resource, grant.verb) for grant in grants.granted("w", settings)}

    assert verbs(ALL_NAMESPACES) - verbs(settings) == removed
    assert verbs(settings) - verbs(ALL_NAMESPACES) == added


@pytest.mark.parametrize("settings", [ALL_NAMESPACES, MANAGING, TWO], ids=["everywhere", "managing", "two"])
def test_no_grant_escalates_privileges(settings: Settings) -> None:
    for grant in grants.granted("windlass-system", settings):
        assert "*" not in (grant.group, grant.resource, grant.verb)
        assert grant.group != "rbac.authorization.k8s.io"
        assert grant.resource.split("/")[0] not in {"secrets", "serviceaccounts", "nodes"}
        assert grant.verb not in {"escalate", "bind", "impersonate"}
        assert grant.verb == "create" or grant.group != "apiextensions.k8s.io" or grant.name


@pytest.mark.parametrize(
    "settings",
    [
        ALL_NAMESPACES,
        MANAGING,
        TWO,
        Settings(lease_name="mine", lease_namespace="elsewhere", events=False),
        Settings(leader_election=False),
    ],
)
def test_manifests_grant_the_permissions(settings: Settings) -> None:
    options = InstallOptions(namespace="windlass-system", settings=settings)
    account = {"kind": "ServiceAccount", "name": "windlass-controller", "namespace": "windlass-system"}
    made = manifests.access(options)
    assert [one["metadata"] for one in made if one["kind"] == "ServiceAccount"] == [
        options.metadata("windlass-controller")
    ]
    assert _granted_by(made, account) == grants.granted("windlass-system", settings)


@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        (ALL_NAMESPACES, {"": "system:serviceaccounts"}),
        (
            TWO,
            {"team-a": "system:serviceaccounts:team-a", "team-b": "system:serviceaccounts:team-b"},
        ),
        (
            Settings(namespaces=("windlass-system",)),
            {"windlass-system": "system:serviceaccounts:windlass-system"},
        ),
        (Settings(lease_namespace="elsewhere", leader_election=False), {"": "system:serviceaccounts"}),
    ],
    ids=["everywhere", "two", "own", "no lease"],
)
def test_all_service_accounts_may_only_read_gangs(settings: Settings, groups: dict[str, str]) -> None:
    made = manifests.access(InstallOptions(namespace="windlass-system", settings=settings))
    for namespace, group in groups.items():
        group_subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}
        expected = {Grant("windlass.dev", "gangs", verb, namespace) for verb in ("get", "list", "watch")}
        assert _granted_by(made, group_subject) == expected
    subjects = [subject for one in made for subject in one.get("subjects", ())]
    bound = [subject["name"] for subject in subjects if subject["kind"] != "ServiceAccount"]
    assert sorted(bound) == sorted(groups.values()), "no other subjects"


def _granted_by(manifests: Iterable[Json], subject: Json) -> set[Grant]:
    """Return the grants of the bindings of a subject."""
    objects = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in manifests
    }
    granted = set()
    for (kind, namespace, _), binding in objects.items():
        if not kind.endswith("Binding"):
            continue
        (bound,) = binding["subjects"]
        if bound != subject:
            continue
        role = objects[binding["roleRef"]["kind"], namespace, binding["roleRef"]["name"]]
        granted |= {
            Grant(group, resource, verb, namespace, name)
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
            for name in rule.get("resourceNames", [""])
        }
    return granted


@pytest.mark.parametrize("group", names.GROUPS)
@pytest.mark.parametrize(
    ("resource", "make", "owner"),
    [
        (CONFIG_MAPS, config_map, ("frameworks", "job")),
        (SERVICES, service, ("frameworks", "job")),
        (PODS, lambda framework: pod(framework, "worker", 0), ("configmaps", "job-attempt")),
        (GANGS, gang, ("configmaps", "job-attempt")),
    ],
    ids=["ConfigMap", "Service", "Pod", "Gang"],
)
def test_created_object_needs_finalizers_of_its_owner(
    group: str, resource: Resource, make: Callable[[Framework], Json], owner: tuple[str, str]
) -> None:
    framework = running(group)
    body = msgspec.json.encode(make(framework))
    plural, name = owner
    owner_group = group if plural == "frameworks" else ""

    needed = grants.needed_for_owners(requests.create(resource, framework.namespace, body))

    assert needed == {Grant(owner_group, f"{plural}/finalizers", "update", framework.namespace, name)}
    assert grants.missing(grants.granted("w", ALL_NAMESPACES), needed) == frozenset()


def running(group: str) -> Framework:
    """Return a Framework whose attempt has a ConfigMap and whose task has an address."""
    made = builders.framework(group=group, annotations={names.RUNTIME_ANNOTATION: "mpi"})
    status = initial_status.framework_status(made, NOW)
    (role,) = status.attempt_status.roles
    (task,) = role.task_statuses
    with_address = replace(task.attempt_status, pod_uid="pod", pod_ip="10.0.0.5")
    role = replace(role, task_statuses=(replace(task, attempt_status=with_address),))
    attempt = replace(
        status.attempt_status, config_map_uid="cm", instance_uid="0_cm", task_role_statuses=(role,)
    )
    return made.with_status(replace(status, attempt_status=attempt))


@pytest.mark.parametrize(
    ("reference", "needed"),
    [
        ({"blockOwnerDeletion": True}, {Grant("", "configmaps/finalizers", "update", "a", "x-attempt")}),
        ({"blockOwnerDeletion": False}, set()),
        ({}, set()),
    ],
)
def test_only_blocking_owners_need_finalizers(reference: Json, needed: set[Grant]) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x-attempt", "uid": "u", **reference}
    body = msgspec.json.encode({"metadata": {"ownerReferences": [owner]}})
    assert grants.needed_for_owners(requests.create(PODS, "a", body)) == needed
    assert grants.needed_for_owners(requests.replace(PODS, "a", "x", body)) == frozenset()


def test_docs_page_lists_every_permission() -> None:
    page = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{_resource(one)}` | {', '.join(one.verbs)} | {one.scope} | {one.reason} |"
        for one in (*roles.permissions(ALL), *roles.GANG_PERMISSIONS)
    ]


def _resource(permission: roles.Permission) -> str:
    plural, slash, subresource = permission.resource.partition("/")
    return f"{plural}{'.' if permission.group else ''}{permission.group}{slash}{subresource}"


def test_records_are_an_option_of_the_installation() -> None:
    """The definition and the permissions of records exist only with `history`."""
    without, recording = (
        InstallOptions(settings=each) for each in (Settings(), Settings(history=History(enabled=True)))
    )
    added = {(each["kind"], each["metadata"]["name"]) for each in manifests.all_of(recording)} - {
        (each["kind"], each["metadata"]["name"]) for each in manifests.all_of(without)
    }
    assert added == {("CustomResourceDefinition", "attemptrecords.windlass.dev")}
    more = set(roles.permissions(recording.settings)) - set(roles.permissions(without.settings))
    resources = {(each.resource, each.verbs) for each in more}
    assert ("attemptrecords", ("create", "list", "delete")) in resources
    (deployment,) = [each for each in manifests.all_of(recording) if each["kind"] == "Deployment"]
    assert "--history-enabled" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_reading_logs_is_an_option_of_the_installation() -> None:
    recording, reading = (History(enabled=True, read_logs=reads) for reads in (False, True))
    more = {
        (each.resource, each.verbs)
        for each in set(roles.permissions(Settings(history=reading)))
        - set(roles.permissions(Settings(history=recording)))
    }
    assert more == {("attemptrecords", ("patch",)), ("namespaces", ("get",)), ("pods/log", ("get",))}
    assert roles.permissions(Settings(history=History(read_logs=True))) == roles.permissions(Settings())
    made = manifests.all_of(InstallOptions(settings=Settings(history=reading)))
    (deployment,) = [each for each in made if each["kind"] == "Deployment"]
    assert "--history-read-logs" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_limited_controller_reads_logs_only_in_its_namespaces() -> None:
    """A Role of a namespace allows reading this Namespace itself."""
    settings = replace(TWO, history=History(enabled=True, read_logs=True))
    granted = grants.granted("windlass-system", settings)
    needed = {
        grants.needed_by(requests.get(NAMESPACES, "team-a", "team-a")),
        grants.needed_by(requests.log("team-a", "job-worker-0", container="main")),
    }
    assert grants.missing(granted, needed) == frozenset()
    assert grants.missing(granted, {Grant("", "pods/log", "get", "team-c")})
