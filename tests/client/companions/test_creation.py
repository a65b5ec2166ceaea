"""Creation of companions: the names of their Services, and errors."""

from collections.abc import Callable

import pytest
from companion_submissions import BOARD, JOB, LAB, Submissions

from windlass.client.connection import Connection
from windlass.client.errors import ClientError, InvalidJobError, ObjectNotFoundError, RejectedError
from windlass.kubeapi.errors import ForbiddenError
from windlass.kubeapi.requests import Request, Verb
from windlass.localcluster.apiserver.openapi import discovery
from windlass.model import names
from windlass.model.base import Json
from windlass.model.failures import ApiFailure


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that does not report to be an embedded one."""
    said = {**discovery.version(), "gitVersion": "v1.35.0"}
    monkeypatch.setattr(discovery, "version", lambda: said)


# The name of TensorBoard's Service


def service_of_another_job(submissions: Submissions) -> None:
    submissions.start({**BOARD, "name": "letters"})


def foreign_service(submissions: Submissions) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tensorboard"}}
    spec = {"ports": [{"port": 6006}]}
    submissions.place.client.post(submissions.place.path("services"), {**body, "spec": spec}).expect(201)


def no_service(_: Submissions) -> None:
    return


SERVICES: dict[str, tuple[Callable[[Submissions], None], Json, str, str]] = {
    "free": (no_service, {}, "tensorboard", ""),
    "asked for": (no_service, {"name": "board"}, "board", ""),
    "of another job": (
        service_of_another_job,
        {},
        "digits-tensorboard",
        "Service tensorboard belongs to the job letters: using the name digits-tensorboard",
    ),
    "foreign": (
        foreign_service,
        {},
        "digits-tensorboard",
        "was not created by Windlass: using the name",
    ),
}


@pytest.mark.parametrize("case", SERVICES)
def test_service_name_avoids_conflicts(case: str, submissions: Submissions) -> None:
    arrange, asked, name, said = SERVICES[case]
    arrange(submissions)
    submissions.start({**BOARD, "tensorboard": asked})
    selector = f"{names.JOB_LABEL}=digits"
    listed = submissions.place.client.get(f"{submissions.place.path('services')}?labelSelector={selector}")
    assert [each["metadata"]["name"] for each in listed.expect(200).body["items"]] == [name]
    assert [line for line in submissions.messages if "using the name" in line and said in line] or not said


# Errors


def refuse(monkeypatch: pytest.MonkeyPatch, verb: Verb, plural: str) -> None:
    send = Connection.send

    async def partly(self: Connection, request: Request) -> bytes:
        if (request.verb, request.resource.plural) == (verb, plural):
            raise ForbiddenError(ApiFailure(403, "Forbidden", f"{plural} are not for you"))
        return await send(self, request)

    monkeypatch.setattr(Connection, "send", partly)


ACCOUNT = (
    r"rejected Role digits-jupyter: roles are not for you. Use an existing service account "
    r"\(jupyter: \{serviceAccount: …\}\), or ask for permission to create service accounts"
)


def test_missing_permission_for_roles_is_explained(
    submissions: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, Verb.CREATE, "roles")
    with pytest.raises(RejectedError, match=ACCOUNT):
        submissions.submit(LAB)
    assert not submissions.everything, "created objects are deleted again"
    submissions.submit({**JOB, "jupyter": {"serviceAccount": "mine"}})
    assert not submissions.parts("roles")


def test_rejected_framework_leaves_existing_companions_unchanged(
    submissions: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    submissions.start({**BOARD, "secrets": {"TOKEN": "x"}})
    refuse(monkeypatch, Verb.CREATE, names.PLURAL)
    with pytest.raises(RejectedError, match="frameworks are not for you"):
        submissions.submit({**BOARD, "jupyter": {}, "secrets": {"TOKEN": "x"}})
    assert set(submissions.everything) == {"deployments/digits-tensorboard", "services/tensorboard"}
    assert submissions.place.client.get(submissions.place.path("secrets", "digits-secrets")).code == 200


BAD: dict[str, tuple[Json, type[ClientError], str]] = {
    "no companions": (JOB, InvalidJobError, r"no job has a companion: add `tensorboard: \{\}` or"),
    "a variable": (
        {**JOB, "jupyter": {"passwordFrom": {"env": "NOT_SET_ANYWHERE"}}},
        InvalidJobError,
        "the variable NOT_SET_ANYWHERE is not set",
    ),
    "a Secret": (
        {**JOB, "jupyter": {"passwordFrom": {"secret": "mine"}}},
        ObjectNotFoundError,
        "jupyter.passwordFrom: Secret mine does not exist in the namespace",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_companion_starts_nothing(case: str, submissions: Submissions) -> None:
    job, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        submissions.start(job)
    assert not submissions.everything


def test_foreign_deployment_is_not_changed(submissions: Submissions) -> None:
    labels = {"app": "x"}
    container = {"name": "main", "image": "x"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "digits-tensorboard"}}
    path = f"/apis/apps/v1/namespaces/{submissions.place.name}/deployments"
    submissions.place.client.post(path, {**body, "spec": spec}).expect(201)
    with pytest.raises(RejectedError, match=r"Deployment digits-tensorboard .* does not belong to the job"):
        submissions.start(BOARD)


def test_image_is_required_except_on_an_embedded_cluster(submissions: Submissions, kubernetes: None) -> None:
    with pytest.raises(InvalidJobError, match="the job digits has no image"):
        submissions.start({key: value for key, value in BOARD.items() if key != "image"})


def test_unknown_job_has_no_companions(submissions: Submissions) -> None:
    with pytest.raises(ObjectNotFoundError, match='there is no job "missing"'):
        submissions.client.companions("missing")
