"""`windlass init --template`: the first templates, from the first edit to the objects on a cluster.

`WINDLASS_REGENERATE=1` rewrites the golden files. Read the difference before you commit it.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kubernetes_schemas import faults

from server_process import RunningServer, serving_in_thread
from windlass.cli.main import main
from windlass.model import names
from windlass.model.base import Json
from windlass.render import templates
from windlass.render.templates import Mode, jinja, validation

RENDERED = Path(__file__).parents[2] / "data" / "rendered"
SINGLE, CLUSTER = "tf_single_template.yaml.jinja", "tf_cluster_template.yaml.jinja"
EDITS = {
    "ckpt-1": "ckpt-198d-8f-322",
    "default": "research",
    "train.csv": "train_data.tfrecord",
    "nfs.example": "192.0.2.19",
    "/exports/share": "/exports/team",
}
NAME = "web-predict-ckpt-198d-8f-322"
FLOWS = {
    "single": ("single", SINGLE, "web-predict"),
    "cluster": ("cluster", CLUSTER, "web-predict", "2", "3"),
    "workers": ("cluster", CLUSTER, "web-predict", "0", "2"),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def windlass(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result


# The files


@pytest.mark.parametrize(("mode", "file"), [("single", SINGLE), ("cluster", CLUSTER)])
def test_init_writes_a_template(mode: str, file: str, here: Path) -> None:
    said = windlass("init", "--template", mode).stderr
    assert said.startswith(f"wrote {file}. ")
    assert f"windlass template {mode} {file} PROJECT" in said
    assert (here / file).read_bytes() == templates.shipped_template(Mode(mode))
    assert windlass("init", "--template", mode, "--out", "-").stdout == (here / file).read_text()
    windlass("init", "--template", mode, "--out", "mine.jinja")
    assert (here / "mine.jinja").read_text() == (here / file).read_text()


def test_existing_template_is_not_replaced(here: Path) -> None:
    (here / SINGLE).write_text("mine")
    assert f"{SINGLE} already exists" in windlass("init", "--template", "single", code=2).stderr
    assert (here / SINGLE).read_text() == "mine"
    windlass("init", "--template", "single", "--force")
    assert (here / SINGLE).read_bytes() == templates.shipped_template(Mode.SINGLE)


@pytest.mark.parametrize("words", [("train.py",), ("--ps", "2"), ("--image", "x"), ("--runtime", "mpi")])
def test_job_options_are_rejected_with_template(words: tuple[str, ...], here: Path) -> None:
    assert "edit the template instead" in windlass("init", "--template", "single", *words, code=2).stderr
    assert not list(here.iterdir())


def test_docs_page_shows_the_template() -> None:
    page = (Path(__file__).parents[3] / "docs" / "templates.md").read_text()
    text = templates.shipped_template(Mode.SINGLE).decode()
    shown, _ = re.findall(r"^```jinja\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert shown in text
    (said,) = re.findall(r"^preflight: \S+ (does not exist on .*)$", page, re.MULTILINE)
    assert said.replace("nfs.example:/exports/share", "$SERVER:$FOLDER") in text


# From the template to the cluster


def flow(case: str, folder: Path) -> str:
    """Write a template, edit it and render it, like a user."""
    mode, file, *rest = FLOWS[case]
    windlass("init", "--template", mode)
    text = (folder / file).read_text()
    for old, new in EDITS.items():
        assert f'"{old}"' in text
        text = text.replace(f'"{old}"', f'"{new}"')
    (folder / file).write_text(text)
    result = windlass("template", mode, file, *rest)
    assert result.stderr == ""
    return result.stdout


def objects(text: str) -> dict[str, Json]:
    """Return the objects by kind."""
    return {body["kind"]: body for body in yaml.safe_load_all(text)}


@pytest.mark.parametrize("case", FLOWS)
def test_rendered_objects_match_the_golden_file(case: str, here: Path) -> None:
    text = flow(case, here)
    golden = RENDERED / f"template-{case}.yaml"
    if os.environ.get("WINDLASS_REGENERATE"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("case", FLOWS)
def test_rendered_objects_match_the_schemas_of_kubernetes(case: str) -> None:
    for body in objects((RENDERED / f"template-{case}.yaml").read_text()).values():
        assert list(faults(body)) == []


@pytest.mark.parametrize("case", FLOWS)
def test_all_objects_have_the_job_label(case: str) -> None:
    found = objects((RENDERED / f"template-{case}.yaml").read_text())
    assert found["Job"]["metadata"]["name"] == NAME
    for body in found.values():
        assert body["metadata"]["namespace"] == "research"
        assert body["metadata"]["labels"][names.JOB_LABEL] == NAME
        template = body["spec"].get("template", body)
        assert template["metadata"]["labels"][names.JOB_LABEL] == NAME


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving_in_thread(tmp_path_factory.mktemp("server")) as served:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
        assert served.ask("POST", "/api/v1/namespaces", body).code == 201
        yield served


PATHS = {
    "Job": "/apis/batch/v1/namespaces/research/jobs",
    "StatefulSet": "/apis/apps/v1/namespaces/research/statefulsets",
    "Service": "/api/v1/namespaces/research/services",
}


@pytest.mark.parametrize("case", FLOWS)
def test_api_server_accepts_the_objects(case: str, server: RunningServer) -> None:
    for kind, body in objects((RENDERED / f"template-{case}.yaml").read_text()).items():
        answer = server.ask("POST", f"{PATHS[kind]}?dryRun=All&fieldValidation=Strict", body)
        assert answer.code == 201, answer.body


# Environment of the tasks


def environment(template: Json, index: int) -> dict[str, str]:
    """Return the environment of the main container with expanded variables."""
    (container,) = template["spec"]["containers"]
    told = {each["name"]: each.get("value", str(index)) for each in container["env"]}
    return {name: value.replace("$(TASK_INDEX)", str(index)) for name, value in told.items()}


def test_tasks_of_a_cluster_have_discovery_variables() -> None:
    found = objects((RENDERED / "template-cluster.yaml").read_text())
    service = found["Service"]["metadata"]["name"]
    ps = [f"{found['StatefulSet']['metadata']['name']}-{index}.{service}:2222" for index in (0, 1)]
    workers = [f"{found['Job']['metadata']['name']}-{index}.{service}:2222" for index in (0, 1, 2)]
    assert found["StatefulSet"]["spec"]["serviceName"] == service
    assert found["Job"]["spec"]["template"]["spec"]["subdomain"] == service
    for kind, role in (("StatefulSet", "ps"), ("Job", "worker")):
        told = environment(found[kind]["spec"]["template"], 1)
        config = json.loads(told["TF_CONFIG"])
        assert config == {"cluster": {"ps": ps, "worker": workers}, "task": {"type": role, "index": 1}}
        assert (told["PS_HOSTS"].split(","), told["WORKER_HOSTS"].split(",")) == (ps, workers)
        assert (told["JOB_NAME"], told["TASK_INDEX"]) == (role, "1")


def test_cluster_without_parameter_servers() -> None:
    found = objects((RENDERED / "template-workers.yaml").read_text())
    assert sorted(found) == ["Job", "Service"]
    config = json.loads(environment(found["Job"]["spec"]["template"], 0)["TF_CONFIG"])
    assert list(config["cluster"]) == ["worker"]


def test_gpus_are_requested(here: Path) -> None:
    windlass("init", "--template", "cluster")
    text = (here / CLUSTER).read_text().replace("worker_gpus = 0", "worker_gpus = 2")
    (here / CLUSTER).write_text(text)
    found = objects(windlass("template", "cluster", CLUSTER, "web", "1", "1").stdout)
    limits = {
        kind: body["spec"]["template"]["spec"]["containers"][0].get("resources")
        for kind, body in found.items()
        if kind != "Service"
    }
    assert limits == {"StatefulSet": None, "Job": {"limits": {"nvidia.com/gpu": 2}}}


# Preflight


def preflight(share: Path) -> subprocess.CompletedProcess[str]:
    """Run the script of the init container with a local folder in place of the mount."""
    job = objects((RENDERED / "template-single.yaml").read_text())["Job"]
    (container,) = job["spec"]["template"]["spec"]["initContainers"]
    shell, option, script = container["command"]
    env = {each["name"]: each["value"] for each in container["env"]}
    return subprocess.run(  # noqa: S603
        [shell, option, script.replace('"/share/', f'"{share}/')],
        env={**env, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_preflight_names_missing_files(tmp_path: Path) -> None:
    result = preflight(tmp_path)
    assert result.returncode == 1
    for file in ("src/web-predict/train.py", "data/web-predict/train_data.tfrecord"):
        assert f"{file} does not exist on the share 192.0.2.19:/exports/team. " in result.stdout
    assert not list(tmp_path.iterdir())


def test_preflight_passes_if_files_exist(tmp_path: Path) -> None:
    for file in ("src/web-predict/train.py", "data/web-predict/train_data.tfrecord"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text("")
    result = preflight(tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / "output" / "web-predict" / "ckpt-198d-8f-322").is_dir()


# Values of the variables


@pytest.mark.parametrize("mode", Mode)
@settings(max_examples=20)
@example(server="a'b", file='c"d', image="e: f # g")
@example(server="{{ 7*7 }}", file="$(HOME) $$", image="\\n\n\t")
@example(server="", file="yes", image="00012")
@given(server=st.text(max_size=30), file=st.text(max_size=30), image=st.text(max_size=30))
def test_values_are_rendered_unchanged(mode: Mode, server: str, file: str, image: str) -> None:
    """`$(TASK_INDEX)` is expanded by Kubernetes."""
    source = templates.shipped_template(mode).decode()
    given_values = {"nfs_server": server, "train_data_file": file, "image": image}
    for name in given_values:
        source = "\n".join(line for line in source.split("\n") if not line.startswith(f"{{% set {name} "))
    variables = {"project_name": "web", "ps_replicas": 1, "worker_replicas": 1, **given_values}
    text = jinja.render(source, "t", variables)
    assert list(validation.check(text)) == []
    spec = objects(text)["Job"]["spec"]["template"]["spec"]
    (volume,), (container,) = spec["volumes"], spec["containers"]
    assert (volume["nfs"]["server"], container["image"]) == (server, image)
    assert environment({"spec": spec}, 0)["TRAIN_DATA_FILE"] == f"/share/data/web/{file}"
