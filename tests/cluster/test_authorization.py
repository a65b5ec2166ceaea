"""RBAC: messages of forbidden requests, access reviews, default roles, escalation and service account tokens.

Users are impersonated. The expected messages are those of Kubernetes, on both servers.
"""

import base64
import json
from typing import Any

import msgspec
import pytest

from conformance.client import Answer, Client, Json
from conformance.objects import Namespace, config_map, path
from conformance.servers import Cluster
from conformance.transcript import RecordingClient
from conformance.waiting import wait_for

RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1"
JANE = {"Impersonate-User": "jane"}


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return cluster.client


# Method, path, and the message without `User "jane" cannot`.
FORBIDDEN = {
    "list": ("GET", "pods", 'pods is forbidden: list resource "pods" in API group ""'),
    "watch": ("GET", "pods?watch=true", 'pods is forbidden: watch resource "pods" in API group ""'),
    "list-one": (
        "GET",
        "pods?fieldSelector=metadata.name%3Da",
        'pods "a" is forbidden: list resource "pods" in API group ""',
    ),
    "get": ("GET", "pods/a", 'pods "a" is forbidden: get resource "pods" in API group ""'),
    "log": ("GET", "pods/a/log", 'pods "a" is forbidden: get resource "pods/log" in API group ""'),
    "exec": (
        "POST",
        "pods/a/exec?command=id",
        'pods "a" is forbidden: create resource "pods/exec" in API group ""',
    ),
    "create": ("POST", "secrets", 'secrets is forbidden: create resource "secrets" in API group ""'),
    "update-status": (
        "PUT",
        "pods/a/status",
        'pods "a" is forbidden: update resource "pods/status" in API group ""',
    ),
    "patch": (
        "PATCH",
        "configmaps/a",
        'configmaps "a" is forbidden: patch resource "configmaps" in API group ""',
    ),
    "delete": ("DELETE", "secrets/a", 'secrets "a" is forbidden: delete resource "secrets" in API group ""'),
    "deletecollection": (
        "DELETE",
        "secrets",
        'secrets is forbidden: deletecollection resource "secrets" in API group ""',
    ),
}


def role(name: str, *rules: Json) -> Json:
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": name}, "rules": list(rules)}


def rule(groups: str, resources: str, verbs: str, names: str = "") -> Json:
    """Return a rule. The arguments are lists separated by spaces; `core` is the core group."""
    found = {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }
    return found | ({"resourceNames": names.split()} if names else {})


def binding(name: str, subject: Json, role: str, kind: str = "Role") -> Json:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [subject],
    }


def user(name: str) -> Json:
    return {"apiGroup": RBAC, "kind": "User", "name": name}


def group(name: str) -> Json:
    return {"apiGroup": RBAC, "kind": "Group", "name": name}


def grant(client: Client, namespace: Namespace, subject: Json, *rules: Json) -> None:
    """Create a role with the rules and bind it to the subject."""
    client.post(namespace.path("roles"), role("granted", *rules)).expect(201)
    client.post(namespace.path("rolebindings"), binding("granted", subject, "granted")).expect(201)


def can_i(client: Client, namespace: Namespace, attempt: str, headers: dict[str, str]) -> Json:
    """Return the status of a review. `attempt` is e.g. `get /pods/NAME/log` or `list apps/deployments`."""
    verb, _, target = attempt.partition(" ")
    api_group, resource, name, subresource = [*target.split("/"), "", ""][:4]
    attributes = {"verb": verb, "group": api_group, "resource": resource, "namespace": namespace.name}
    attributes |= {"name": name, "subresource": subresource}
    body = {"spec": {"resourceAttributes": attributes}}
    return client.post(f"{REVIEWS}/selfsubjectaccessreviews", body, headers).expect(201).body["status"]


def wait_until_allowed(client: Client, namespace: Namespace, attempt: str, headers: dict[str, str]) -> None:
    """Wait until the server uses a new role. A real one reads roles from a cache."""
    wait_for(attempt, lambda: can_i(client, namespace, attempt, headers)["allowed"])


@pytest.mark.parametrize(("method", "target", "expected"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_request_without_permission_is_forbidden(
    client: Client, namespace: Namespace, method: str, target: str, expected: str
) -> None:
    headers = {**JANE, "Content-Type": "application/merge-patch+json"} if method == "PATCH" else JANE
    body: Json = {} if method in ("POST", "PUT", "PATCH") else None
    answer = client.request(method, namespace.path(target), body, headers).expect(403)
    what, _, action = expected.partition(": ")
    assert answer.message == f'{what}: User "jane" cannot {action} in the namespace "{namespace.name}"'
    assert answer.reason == "Forbidden"


def test_messages_name_the_scope_and_the_group(client: Client, namespace: Namespace) -> None:
    name = namespace.name
    account = {"Impersonate-User": f"system:serviceaccount:{name}:default"}
    found = [
        client.get("/api/v1/nodes", JANE),
        client.get(f"/api/v1/namespaces/{name}", JANE),
        client.get(f"/apis/nothing.example.com/v1/namespaces/{name}/things/a", JANE),
        client.get("/metrics", JANE),
        client.get(namespace.path("jobs"), account),
    ]
    assert [answer.expect(403).message for answer in found] == [
        'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
        (
            f'namespaces "{name}" is forbidden: User "jane" cannot get resource "namespaces" in API group "" in the'
            f' namespace "{name}"'
        ),
        (
            'things.nothing.example.com "a" is forbidden: User "jane" cannot get resource "things" in API group'
            f' "nothing.example.com" in the namespace "{name}"'
        ),
        'forbidden: User "jane" cannot get path "/metrics"',
        (
            f'jobs.batch is forbidden: User "system:serviceaccount:{name}:default" cannot list resource "jobs" in API'
            f' group "batch" in the namespace "{name}"'
        ),
    ]


@pytest.mark.parametrize("target", ["/version", "/api", "/apis", "/api/v1", "/openapi/v3", "/readyz"])
def test_discovery_is_allowed_to_every_user(client: Client, target: str) -> None:
    client.get(target, JANE).expect(200)


CALLERS = {
    "jane": JANE,
    "reader": {"Impersonate-User": "joe", "Impersonate-Group": "readers"},
    "account": {"Impersonate-User": "system:serviceaccount:{}:reader"},
    "other-account": {"Impersonate-User": "system:serviceaccount:{}:other"},
    "foreign-account": {"Impersonate-User": "system:serviceaccount:default:reader"},
}
SUBJECTS: dict[str, tuple[Json, set[str]]] = {
    "user": (user("jane"), {"jane"}),
    "group": (group("readers"), {"reader"}),
    "authenticated": (group("system:authenticated"), set(CALLERS)),
    "account": ({"kind": "ServiceAccount", "name": "reader"}, {"account"}),
    "accounts-of-namespace": (group("system:serviceaccounts:{}"), {"account", "other-account"}),
    "all-accounts": (
        group("system:serviceaccounts"),
        {"account", "other-account", "foreign-account"},
    ),
}


@pytest.mark.parametrize(("subject", "allowed"), SUBJECTS.values(), ids=SUBJECTS)
def test_binding_grants_rights_to_its_subjects_only(
    client: Client, namespace: Namespace, subject: Json, allowed: set[str]
) -> None:
    def with_namespace(fields: Json) -> Json:
        return {key: value.format(namespace.name) for key, value in fields.items()}

    grant(client, namespace, with_namespace(subject), rule("core", "configmaps", "list"))
    wait_until_allowed(client, namespace, "list /configmaps", with_namespace(CALLERS[min(allowed)]))
    codes = {
        name: client.get(namespace.path("configmaps"), with_namespace(headers)).code
        for name, headers in CALLERS.items()
    }
    assert codes == {name: 200 if name in allowed else 403 for name in CALLERS}


ATTEMPTS = (
    *("get /configmaps/a", "get /configmaps/b", "update /configmaps/a", "list /configmaps", "get /pods/a"),
    *("get /pods/a/log", "get /pods/a/status", "get batch/jobs/a", "get batch/jobs/a/status"),
)
RULES = {
    "verb": (rule("core", "configmaps", "get"), {"get /configmaps/a", "get /configmaps/b"}),
    "name": (rule("core", "configmaps", "get update", "a"), {"get /configmaps/a", "update /configmaps/a"}),
    "all-verbs": (rule("core", "configmaps", "*"), {each for each in ATTEMPTS if "configmaps" in each}),
    "all-resources": (
        rule("core", "*", "get"),
        {each for each in ATTEMPTS if each.startswith("get /")},
    ),
    "all-groups": (rule("*", "jobs", "get"), {"get batch/jobs/a"}),
    "subresource": (rule("core", "pods/log", "get"), {"get /pods/a/log"}),
    "any-subresource": (rule("*", "*/status", "get"), {"get /pods/a/status", "get batch/jobs/a/status"}),
    "other-group": (rule("apps", "configmaps", "get"), set[str]()),
}


@pytest.mark.parametrize(("granted", "allowed"), RULES.values(), ids=RULES)
def test_rule_allows_exactly_what_it_names(
    client: Client, namespace: Namespace, granted: Json, allowed: set[str]
) -> None:
    grant(client, namespace, user("jane"), granted, rule("marker.example.com", "markers", "get"))
    wait_until_allowed(client, namespace, "get marker.example.com/markers", JANE)
    found = {each: can_i(client, namespace, each, JANE) for each in ATTEMPTS}
    assert {each for each, status in found.items() if status["allowed"]} == allowed
    reason = f'RBAC: allowed by RoleBinding "granted/{namespace.name}" of Role "granted" to User "jane"'
    assert {status.get("reason", "") for status in found.values()} <= {reason, ""}


# The role that the controller of a real cluster copies into `view`, `edit` or `admin`, and can-i answers.
DEFAULT_ROLES = {
    "view": ("get /pods/a", "list apps/deployments", "no: get /secrets/a", "no: create /pods"),
    "edit": ("create /pods", "get /secrets/a", "create /pods/a/exec", f"no: create {RBAC}/roles"),
    "admin": (f"create {RBAC}/rolebindings", "no: create /pods", "no: update /resourcequotas/a"),
}


@pytest.mark.parametrize("name", DEFAULT_ROLES)
def test_default_role_answers(client: Client, namespace: Namespace, name: str) -> None:
    bound = binding("default", user("jane"), f"system:aggregate-to-{name}", "ClusterRole")
    client.post(namespace.path("rolebindings"), bound).expect(201)
    wait_until_allowed(client, namespace, DEFAULT_ROLES[name][0], JANE)
    for attempt in DEFAULT_ROLES[name]:
        status = can_i(client, namespace, attempt.removeprefix("no: "), JANE)
        assert status["allowed"] is not attempt.startswith("no: "), attempt


ROLES = (
    *("admin", "cluster-admin", "edit", "view", "system:basic-user", "system:discovery"),
    *("system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view"),
    "system:public-info-viewer",
)
BINDINGS = ("cluster-admin", "system:basic-user", "system:discovery", "system:public-info-viewer")


@pytest.mark.parametrize("name", ROLES)
def test_default_role(api: RecordingClient, name: str) -> None:
    api.get(path("clusterroles", name, group=f"{RBAC}/v1")).expect(200)


@pytest.mark.parametrize("name", BINDINGS)
def test_default_binding(api: RecordingClient, name: str) -> None:
    api.get(path("clusterrolebindings", name, group=f"{RBAC}/v1")).expect(200)


INVALID_REVIEWS = {
    "no-subject": (
        {"resourceAttributes": {"verb": "get"}},
        "at least one of user or group must be specified",
    ),
    "no-attributes": ({"user": "jane"}, "exactly one of nonResourceAttributes or resourceAttributes"),
    "both": (
        {
            "user": "jane",
            "resourceAttributes": {"verb": "get"},
            "nonResourceAttributes": {"verb": "get", "path": "/"},
        },
        "exactly one of nonResourceAttributes or resourceAttributes",
    ),
}


@pytest.mark.parametrize(("spec", "problem"), INVALID_REVIEWS.values(), ids=INVALID_REVIEWS)
def test_invalid_review_is_rejected(client: Client, spec: Json, problem: str) -> None:
    assert problem in client.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec}).expect(422).message


def test_only_administrators_review_the_access_of_others(client: Client, namespace: Namespace) -> None:
    attributes = {"verb": "get", "resource": "pods", "namespace": namespace.name}
    body = {"spec": {"user": "jane", "resourceAttributes": attributes}}
    answer = client.post(f"{REVIEWS}/subjectaccessreviews", body).expect(201)
    assert answer.body["status"] == {"allowed": False}
    client.post(f"{REVIEWS}/subjectaccessreviews", body, JANE).expect(403)


def test_binding_to_a_missing_role_is_named_in_the_message(client: Client, namespace: Namespace) -> None:
    bindings = namespace.path("rolebindings")
    client.post(bindings, binding("a", user("jane"), "missing", "ClusterRole")).expect(201)
    expected = f': RBAC: clusterrole.{RBAC} "missing" not found'
    wait_for("the binding", lambda: client.get(namespace.path("secrets"), JANE).message.endswith(expected))


# Privilege escalation

MANAGER = {"Impersonate-User": "manager"}
NOT_HELD = (
    'user "manager" (groups=["system:authenticated"]) is attempting to grant RBAC permissions'
    " not currently held:\n"
)


@pytest.fixture
def manager(client: Client, namespace: Namespace) -> dict[str, str]:
    """Return the headers of a user who may write roles and read ConfigMaps."""
    writes = rule(RBAC, "roles rolebindings", "create update patch get")
    grant(client, namespace, user("manager"), writes, rule("core", "configmaps", "get list"))
    wait_until_allowed(client, namespace, "get /configmaps", MANAGER)
    return MANAGER


GRANTED = {
    "held": (rule("core", "configmaps", "get"), ""),
    "held-names": (rule("core", "configmaps", "get", "a b"), ""),
    "other-verbs": (
        rule("core", "configmaps secrets", "get update"),
        (
            '{APIGroups:[""], Resources:["configmaps"], Verbs:["update"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "update"]}'
        ),
    ),
    "all": (rule("*", "*", "*"), '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'),
    "names": (
        rule("core", "secrets", "get", "a"),
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}',
    ),
}


@pytest.mark.parametrize(("granted", "missing"), GRANTED.values(), ids=GRANTED)
def test_user_can_grant_only_own_permissions(
    client: Client, namespace: Namespace, manager: dict[str, str], granted: Json, missing: str
) -> None:
    answer = client.post(namespace.path("roles"), role("new", granted), manager)
    if not missing:
        answer.expect(201)
        return
    assert answer.expect(403).message == f'roles.{RBAC} "new" is forbidden: {NOT_HELD}{missing}'


def test_update_of_a_role_cannot_escalate(
    client: Client, namespace: Namespace, manager: dict[str, str]
) -> None:
    secrets, roles = rule("core", "secrets", "get"), namespace.path("roles")
    client.post(roles, role("strong", secrets)).expect(201)
    client.post(roles, role("weak", rule("core", "configmaps", "get"))).expect(201)
    labels = {"metadata": {"labels": {"a": "b"}}}
    client.put(f"{roles}/weak", role("weak", secrets), manager).expect(403)
    client.patch(f"{roles}/weak", {"rules": [secrets]}, headers=manager).expect(403)
    client.patch(f"{roles}/strong", labels, headers=manager).expect(403)
    client.patch(f"{roles}/weak", labels, headers=manager).expect(200)
    client.put(f"{roles}/created", role("created", secrets), manager).expect(403)


def test_update_that_creates_an_object_needs_permission_to_create(
    client: Client, namespace: Namespace
) -> None:
    grant(client, namespace, user("jane"), rule("coordination.k8s.io", "leases", "update"))
    wait_until_allowed(client, namespace, "update coordination.k8s.io/leases", JANE)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    message = client.put(namespace.path("leases", "a"), lease, JANE).expect(403).message
    assert message.startswith('leases.coordination.k8s.io "a" is forbidden: User "jane" cannot create')


def test_user_can_bind_only_roles_with_own_permissions(
    client: Client, namespace: Namespace, manager: dict[str, str]
) -> None:
    roles, bindings = namespace.path("roles"), namespace.path("rolebindings")
    client.post(roles, role("strong", rule("core", "secrets", "get"))).expect(201)
    client.post(roles, role("weak", rule("core", "configmaps", "get"))).expect(201)

    def bind(name: str, kind: str = "Role") -> Answer:
        return client.post(bindings, binding(f"to-{name}", user("jane"), name, kind), manager)

    wait_for("the role", lambda: bind("strong").code == 403)
    wait_for("the role", lambda: bind("weak").code == 201)
    bind("cluster-admin", "ClusterRole").expect(403)
    bind("missing").expect(404)


def test_verbs_escalate_and_bind_lift_the_limits(client: Client, namespace: Namespace) -> None:
    rules = rule(RBAC, "roles", "create escalate bind"), rule(RBAC, "rolebindings", "create")
    grant(client, namespace, user("chief"), *rules)
    chief = {"Impersonate-User": "chief"}
    wait_until_allowed(client, namespace, f"escalate {RBAC}/roles", chief)
    client.post(namespace.path("roles"), role("new", rule("core", "secrets", "get")), chief).expect(201)
    client.post(namespace.path("rolebindings"), binding("new", user("jane"), "new"), chief).expect(201)


# Tokens


def request_token(client: Client, namespace: Namespace, **spec: Any) -> Client:
    """Return a client with a token of the account `robot`, which is created."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    client.post(namespace.path("serviceaccounts"), account).expect(201)
    answer = client.post(namespace.path("serviceaccounts", "robot", "token"), {"spec": spec}).expect(201)
    return Client(msgspec.structs.replace(client.access, token=answer.body["status"]["token"]))


def test_token_has_the_rights_of_its_account(client: Client, namespace: Namespace) -> None:
    robot, listed = request_token(client, namespace), namespace.path("configmaps")
    robot.get(listed).expect(403)
    account = {"kind": "ServiceAccount", "name": "robot"}
    grant(client, namespace, account, rule("core", "configmaps", "list create"))
    wait_for("the binding", lambda: robot.get(listed).code == 200)
    robot.post(listed, config_map("a")).expect(201)
    robot.get(f"{listed}/a").expect(403)
    body: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    review = robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body).expect(201).body
    info = review["status"]["userInfo"]
    assert info["username"] == f"system:serviceaccount:{namespace.name}:robot"
    accounts = f"system:serviceaccounts:{namespace.name}"
    assert info["groups"] == ["system:serviceaccounts", accounts, "system:authenticated"]


def test_account_cannot_impersonate(client: Client, namespace: Namespace) -> None:
    robot = request_token(client, namespace)
    # Kubernetes 1.37 reports the missing permission for constrained impersonation, in other words.
    message = robot.get("/version", {"Impersonate-User": "jane"}).expect(403).message
    assert f'User "system:serviceaccount:{namespace.name}:robot" cannot impersonate' in message


def test_options_of_a_token_request(client: Client, namespace: Namespace) -> None:
    request_token(client, namespace)
    path = namespace.path("serviceaccounts", "robot", "token")
    refused = client.post(f"{path}?dryRun=all", {"spec": {}}).expect(422)
    assert refused.body["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["all"]: supported values: "All"'
    )
    assert client.post(f"{path}?dryRun=All", {"spec": {}}).expect(201).body["status"]["token"]


def test_token_of_a_deleted_account_is_rejected(client: Client, namespace: Namespace) -> None:
    robot = request_token(client, namespace)
    robot.get("/version").expect(200)
    client.delete(namespace.path("serviceaccounts", "robot")).expect(200)
    wait_for("the token to be rejected", lambda: robot.get("/version").code == 401)


def test_token_for_another_audience_is_rejected(client: Client, namespace: Namespace) -> None:
    request_token(client, namespace, audiences=["vault"]).get("/version").expect(401)


def test_changed_token_is_rejected(client: Client, namespace: Namespace) -> None:
    robot = request_token(client, namespace)
    header, payload, signature = (robot.access.token or "").split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    changed = json.dumps({**claims, "exp": claims["exp"] + 1}).encode()
    forged = base64.urlsafe_b64encode(changed).rstrip(b"=").decode()
    for token in (f"{header}.{forged}.{signature}", f"{header}.{payload}.", f"{header}.{payload}"):
        Client(msgspec.structs.replace(client.access, token=token)).get("/version").expect(401)


TOKEN_REQUESTS = {
    "too-short": ({"expirationSeconds": 10}, 422, "may not specify a duration less than 10 minutes"),
    "too-long": ({"expirationSeconds": 2**33}, 422, "may not specify a duration larger than 2^32 seconds"),
    "no-such-pod": (
        {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "missing"}},
        404,
        'pods "missing" not found',
    ),
}


@pytest.mark.parametrize(("spec", "code", "problem"), TOKEN_REQUESTS.values(), ids=TOKEN_REQUESTS)
def test_invalid_token_request_is_rejected(
    client: Client, namespace: Namespace, spec: Json, code: int, problem: str
) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    client.post(namespace.path("serviceaccounts"), account).expect(201)
    answer = client.post(namespace.path("serviceaccounts", "robot", "token"), {"spec": spec}).expect(code)
    assert problem in answer.message
