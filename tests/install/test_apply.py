"""Creating and replacing objects: conflicts with other clients, and errors of the server."""

import asyncio
from typing import Any

import msgspec
import pytest

from windlass.install import apply, manifests
from windlass.install.apply import ApplyResult
from windlass.install.errors import InstallError
from windlass.install.options import InstallOptions
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request, Verb
from windlass.model.base import Json

ACCOUNT = next(one for one in manifests.all_of(InstallOptions()) if one["kind"] == "ServiceAccount")
BUDGET = next(one for one in manifests.all_of(InstallOptions()) if one["kind"] == "PodDisruptionBudget")
DEFINITION = manifests.definitions(InstallOptions())[0]


def api_error(code: int, reason: str, message: str = "because") -> errors.ApiError:
    return errors.from_response(
        code, {}, msgspec.json.encode({"kind": "Status", "reason": reason, "message": message})
    )


TERMINATING = errors.from_response(
    403,
    {},
    b'{"kind": "Status", "reason": "Forbidden", "message": "unable to create new content in namespace x because it is '
    b'being terminated", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}',
)
EXISTS = api_error(409, "AlreadyExists")
CONFLICT = api_error(409, "Conflict")
GONE = api_error(404, "NotFound")


class Script:
    """A server with scripted answers."""

    def __init__(self, *answers: Json | errors.ApiError) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []
        self.slept = 0.0

    async def send(self, request: Request) -> bytes:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, errors.ApiError):
            raise answer
        return msgspec.json.encode(answer)

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds

    @property
    def verbs(self) -> list[Verb]:
        assert not self._answers
        return [request.verb for request in self.requests]


def run_apply(script: Script, manifest: Json = ACCOUNT) -> ApplyResult:
    return asyncio.run(apply.apply(script.send, manifest, script.sleep))


def live(version: str = "7", **fields: Any) -> Json:
    metadata = {**ACCOUNT["metadata"], "resourceVersion": version, "uid": "u"}
    return {**ACCOUNT, "metadata": metadata, **fields}


def test_conflict_is_retried_with_the_new_version() -> None:
    script = Script(EXISTS, live("7"), CONFLICT, EXISTS, live("8"), live("9"))
    assert run_apply(script).outcome == "configured"
    assert script.verbs == ["create", "get", "update"] * 2
    assert [msgspec.json.decode(script.requests[i].body)["metadata"]["resourceVersion"] for i in (2, 5)] == [
        "7",
        "8",
    ]


@pytest.mark.parametrize("before", [(EXISTS, GONE), (EXISTS, live(), GONE)], ids=["read", "write"])
def test_object_deleted_meanwhile_is_created(before: tuple[Json | errors.ApiError, ...]) -> None:
    assert run_apply(Script(*before, live())).outcome == "created"


def test_repeated_conflicts_fail() -> None:
    answers: list[Json | errors.ApiError] = [EXISTS, live(), CONFLICT]
    with pytest.raises(InstallError, match="another client keeps changing it"):
        run_apply(Script(*answers * 5))


def test_fields_of_others_are_kept() -> None:
    """E.g. the secrets that older releases add to a service account."""
    script = Script(EXISTS, live(secrets=[{"name": "token"}]), live())
    assert run_apply(script).outcome == "unchanged"
    assert msgspec.json.decode(script.requests[2].body)["secrets"] == [{"name": "token"}]


@pytest.fixture
def deleting() -> Json:
    result = live()
    result["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return result


def test_object_is_created_once_its_predecessor_is_deleted(deleting: Json) -> None:
    script = Script(EXISTS, deleting, deleting, deleting, GONE, live())
    assert run_apply(script).outcome == "created"
    assert script.verbs == ["create", "get", "get", "get", "get", "create"]
    assert script.slept == 2


def test_object_that_replaces_a_deleted_one_is_updated(deleting: Json) -> None:
    other = live("8")
    other["metadata"]["uid"] = "another"
    script = Script(EXISTS, deleting, other, EXISTS, other, live("9"))
    assert run_apply(script).outcome == "configured"
    assert script.slept == 0


def namespace(**metadata: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "windlass-system", **metadata}}


def test_creation_is_retried_while_the_server_has_only_seen_the_deleted_namespace() -> None:
    """Admission of the API server reads namespaces from a cache, which is behind for a moment."""
    script = Script(TERMINATING, namespace(), TERMINATING, namespace(), live())
    assert run_apply(script).outcome == "created"
    assert script.verbs == ["create", "get", "create", "get", "create"]
    assert [request.resource.plural for request in script.requests[1:4:2]] == ["namespaces"] * 2
    assert script.slept == 2


def test_creation_in_a_namespace_that_is_being_deleted_fails() -> None:
    script = Script(TERMINATING, namespace(deletionTimestamp="2026-01-01T00:00:00Z"))
    with pytest.raises(InstallError, match=r"its namespace is being deleted \(403 .* Run the command again"):
        run_apply(script)
    assert script.slept == 0


def test_waiting_for_the_cache_of_the_server_times_out() -> None:
    answers: list[Json | errors.ApiError] = [TERMINATING, namespace()]
    with pytest.raises(InstallError, match="after 60 s, the server still rejects it"):
        run_apply(Script(*answers * 60))


def test_waiting_for_a_deletion_times_out(deleting: Json) -> None:
    with pytest.raises(InstallError, match="still being deleted after 60 s"):
        run_apply(Script(EXISTS, *[deleting] * 61))


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (
            [api_error(403, "Forbidden", "cannot create")],
            ["permission denied", "cannot create", "administrator"],
        ),
        ([api_error(401, "Unauthorized")], ["authentication failed", "--kubeconfig and --context"]),
        (
            [EXISTS, live(), api_error(422, "Invalid", "spec.selector: field is immutable")],
            ["cannot be changed in place", "spec.selector", "windlass uninstall", "Frameworks", "kept"],
        ),
        ([api_error(422, "Invalid", "spec.replicas: too many")], ["rejected", "spec.replicas: too many"]),
        (
            [errors.NoValidResponseError("cut")],
            ["no valid answer from the server (cut)", "Run the command again"],
        ),
        (
            [api_error(404, "NotFound", 'namespaces "windlass-system" not found')],
            ["namespace windlass-system does not exist"],
        ),
        ([api_error(500, "InternalError", "boom")], ["rejected", "boom"]),
    ],
)
def test_error_is_one_line_that_names_the_object(
    answers: list[Json | errors.ApiError], words: list[str]
) -> None:
    with pytest.raises(InstallError) as raised:
        run_apply(Script(*answers))
    message = str(raised.value)
    assert message.startswith("serviceaccount/windlass-controller in windlass-system: ")
    assert [word for word in words if word not in message] == []
    assert "\n" not in message


@pytest.mark.parametrize("unknown", [GONE, errors.from_response(404, {}, b"404 page not found\n")])
def test_disruption_budget_is_skipped_if_not_served(unknown: errors.ApiError) -> None:
    assert str(run_apply(Script(unknown), BUDGET)).endswith(
        "skipped: this server does not serve poddisruptionbudgets of policy/v1"
    )


def established(status: str) -> Json:
    condition = {"type": "Established", "status": status, "message": "not yet"}
    return {**DEFINITION, "status": {"conditions": [condition]}}


def test_apply_all_waits_until_definitions_are_established() -> None:
    async def outcomes() -> list[str]:
        made = [DEFINITION, ACCOUNT]
        return [one.outcome async for one in apply.apply_all(script.send, made, script.sleep)]

    script = Script(DEFINITION, established("False"), established("False"), established("True"), ACCOUNT)
    assert asyncio.run(outcomes()) == ["created", "created"]
    assert script.verbs == ["create", "get", "get", "get", "create"]
    assert script.slept == 2


def test_waiting_for_a_definition_times_out() -> None:
    script = Script(*[established("False")] * 60)
    with pytest.raises(InstallError, match="not served after 60 s: not yet"):
        asyncio.run(apply.wait_until_established(script.send, "x", script.sleep))
