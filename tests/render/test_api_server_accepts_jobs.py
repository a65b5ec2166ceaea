"""The API server accepts the Framework and the pods of every example."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from conformance.waiting import wait_for
from server_process import RunningServer, serving_in_thread
from windlass.client.submit import plan as planner
from windlass.client.submit.plan import Target
from windlass.model.base import Json
from windlass.render import code, documents

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "job-file.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
SUBMISSIONS = [found for each in EXAMPLES for found in documents.read(each.encode(), "page").submissions]
FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}
"""Service account of one of the examples."""
WAYS: dict[str, tuple[code.Code | None, bool]] = {
    "without code": (None, True),
    "in place": (code.InPlace("/src"), True),
    "packed": (code.Packed("x-code"), True),
    "without mounts": (None, False),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    definition = yaml.safe_load(
        (
            TOP / "charts/windlass/definitions" / "frameworks.frameworkcontroller.microsoft.com.yaml"
        ).read_text()
    )
    with serving_in_thread(tmp_path_factory.mktemp("server")) as served:
        made = served.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        assert made.code == 201, made.body
        wait_for("Frameworks", lambda: served.ask("GET", FRAMEWORKS).code == 200)
        made = served.ask("POST", "/api/v1/namespaces/default/serviceaccounts", ACCOUNT)
        assert made.code == 201, made.body
        yield served


def _pod(name: str, template: Json) -> Json:
    metadata = {**template.get("metadata", {}), "name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.mark.parametrize(("where", "has_mounts"), WAYS.values(), ids=WAYS.keys())
def test_api_server_accepts_rendered_jobs(
    server: RunningServer, where: code.Code | None, has_mounts: bool
) -> None:
    assert SUBMISSIONS
    for submission in SUBMISSIONS:
        made = planner.render_framework(submission, Target(has_own_mounts=has_mounts), where)
        made = {**made, "metadata": {**made["metadata"], "namespace": "default"}}
        answer = server.ask("POST", f"{FRAMEWORKS}?dryRun=All&fieldValidation=Strict", made)
        assert answer.code == 201, (submission.name, answer.body)
        stored = {key: value for key, value in answer.body["spec"].items() if key in made["spec"]}
        assert stored == made["spec"]
        for role in made["spec"]["taskRoles"]:
            pod = _pod(role["name"], role["task"]["pod"])
            path = "/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict"
            answer = server.ask("POST", path, pod)
            assert answer.code == 201, (submission.name, role["name"], answer.body)
