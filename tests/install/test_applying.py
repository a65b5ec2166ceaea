"""Creating and replacing where others write too, and where the server says no."""

import asyncio
from typing import Any

import msgspec
import pytest

from windlass.install import applying, manifests
from windlass.install.applying import Applied
from windlass.install.plan import Plan
from windlass.install.refusals import InstallError
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request, Verb
from windlass.model.base import Json

ACCOUNT = next(one for one in manifests.all_of(Plan()) if one["kind"] == "ServiceAccount")
BUDGET = next(one for one in manifests.all_of(Plan()) if one["kind"] == "PodDisruptionBudget")
DEFINITION = manifests.definitions()[0]


def refusal(code: int, reason: str, message: str = "because") -> errors.ApiError:
    return errors.from_answer(
        code, {}, msgspec.json.encode({"kind": "Status", "reason": reason, "message": message})
    )


EXISTS = refusal(409, "AlreadyExists")
CONFLICT = refusal(409, "Conflict")
GONE = refusal(404, "NotFound")


class Script:
    """Answers to the requests to come, in order."""

    def __init__(self, *answers: Json | errors.ApiError) -> None:
        self._answers = list(answers)
        self.asked: list[Request] = []
        self.slept = 0.0

    async def send(self, request: Request) -> bytes:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, errors.ApiError):
            raise answer
        return msgspec.json.encode(answer)

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds

    @property
    def verbs(self) -> list[Verb]:
        assert not self._answers
        return [request.verb for request in self.asked]


def apply(script: Script, manifest: Json = ACCOUNT) -> Applied:
    return asyncio.run(applying.apply(script.send, manifest))


def live(version: str = "7", **fields: Any) -> Json:
    metadata = {**ACCOUNT["metadata"], "resourceVersion": version, "uid": "u"}
    return {**ACCOUNT, "metadata": metadata, **fields}


def test_a_conflict_is_tried_again_with_what_is_there_then() -> None:
    script = Script(EXISTS, live("7"), CONFLICT, EXISTS, live("8"), live("9"))
    assert apply(script).outcome == "configured"
    assert script.verbs == ["create", "get", "update"] * 2
    assert [msgspec.json.decode(script.asked[i].body)["metadata"]["resourceVersion"] for i in (2, 5)] == [
        "7",
        "8",
    ]


@pytest.mark.parametrize("before", [(EXISTS, GONE), (EXISTS, live(), GONE)], ids=["read", "write"])
def test_what_goes_meanwhile_is_created(before: tuple[Json | errors.ApiError, ...]) -> None:
    assert apply(Script(*before, live())).outcome == "created"


def test_gives_up() -> None:
    answers: list[Json | errors.ApiError] = [EXISTS, live(), CONFLICT]
    with pytest.raises(InstallError, match="somebody else kept writing it"):
        apply(Script(*answers * 5))


def test_fields_that_we_never_set_stay() -> None:
    """Such as the secrets that older releases note in a service account."""
    script = Script(EXISTS, live(secrets=[{"name": "token"}]), live())
    assert apply(script).outcome == "unchanged"
    assert msgspec.json.decode(script.asked[2].body)["secrets"] == [{"name": "token"}]


def test_what_is_going_is_not_written() -> None:
    going = live()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(InstallError, match="it is being deleted"):
        apply(Script(EXISTS, going))


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (
            [refusal(403, "Forbidden", "cannot create")],
            ["you may not do this", "cannot create", "administrator"],
        ),
        ([refusal(401, "Unauthorized")], ["does not know who you are", "--kubeconfig and --context"]),
        (
            [EXISTS, live(), refusal(422, "Invalid", "spec.selector: field is immutable")],
            ["cannot be changed in place", "spec.selector", "windlass uninstall", "Frameworks", "stay"],
        ),
        ([refusal(422, "Invalid", "spec.replicas: too many")], ["refused", "spec.replicas: too many"]),
        ([errors.UnansweredError("cut")], ["no answer (cut)", "Run the command again"]),
        (
            [refusal(404, "NotFound", 'namespaces "windlass-system" not found')],
            ["no namespace windlass-system"],
        ),
        ([refusal(500, "InternalError", "boom")], ["refused", "boom"]),
    ],
)
def test_refusal_is_one_message(answers: list[Json | errors.ApiError], words: list[str]) -> None:
    with pytest.raises(InstallError) as raised:
        apply(Script(*answers))
    message = str(raised.value)
    assert message.startswith("serviceaccount/windlass-controller in windlass-system: ")
    assert [word for word in words if word not in message] == []
    assert "\n" not in message


@pytest.mark.parametrize("unknown", [GONE, errors.from_answer(404, {}, b"404 page not found\n")])
def test_a_server_without_disruption_budgets_will_do(unknown: errors.ApiError) -> None:
    assert str(apply(Script(unknown), BUDGET)).endswith(
        "skipped: this server has no poddisruptionbudgets in policy/v1"
    )


def established(status: str) -> Json:
    condition = {"type": "Established", "status": status, "message": "not yet"}
    return {**DEFINITION, "status": {"conditions": [condition]}}


def test_waits_for_definitions_before_it_goes_on() -> None:
    async def all_of() -> list[str]:
        made = [DEFINITION, ACCOUNT]
        return [one.outcome async for one in applying.apply_all(script.send, made, script.sleep)]

    script = Script(DEFINITION, established("False"), established("False"), established("True"), ACCOUNT)
    assert asyncio.run(all_of()) == ["created", "created"]
    assert script.verbs == ["create", "get", "get", "get", "create"]
    assert script.slept == 2


def test_does_not_wait_for_ever() -> None:
    script = Script(*[established("False")] * 60)
    with pytest.raises(InstallError, match="does not serve it after 60 s: not yet"):
        asyncio.run(applying.wait_until_established(script.send, "x", script.sleep))
