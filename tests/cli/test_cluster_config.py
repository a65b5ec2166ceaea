"""Configs with imports and resources on the command line, and the requirements of each command."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from windlass.cli.main import main
from windlass.client.errors import InvalidJobError
from windlass.client.submit import sources

EXAMPLE = Path(__file__).parents[2] / "examples" / "tensorflow-cluster" / "config.yaml"
OWN = "imports: [{path: own/it.jinja}]\nresources: [{name: a, type: it, properties: {size: 3}}]\n"
TEMPLATE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ name }}}\ndata: {size: '{{ size }}'}\n"
NOTEBOOK = "resources: [{type: jupyter-service, properties: {image: i, password: hush}}]\n"
CLUSTER = (
    "imports: [{path: own/it.jinja}]\n"
    "resources:\n"
    "- {type: tensorflow-cluster, properties: {image: i, jobs: [{name: worker, num_tasks: 1}]}}\n"
    "- {name: a, type: it, properties: {size: 3}}\n"
)


def windlass(*words: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [*map(str, words)], input=stdin)


def written(folder: Path, text: str, template: str | bytes | None = TEMPLATE) -> Path:
    file = folder / "config.yaml"
    file.write_text(text)
    if template is not None:
        (folder / "own").mkdir()
        (folder / "own" / "it.jinja").write_bytes(
            template.encode() if isinstance(template, str) else template
        )
    return file


def kinds(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [body["kind"] for body in yaml.safe_load_all(result.stdout)]


def test_example_is_rendered() -> None:
    assert windlass("lint", "--strict", EXAMPLE).exit_code == 0
    result = windlass("render", "--config", EXAMPLE)
    assert set(kinds(result)) == {"ConfigMap", "Service", "StatefulSet", "Secret", "Deployment"}
    assert "choose-another-one" not in result.stdout
    assert "ps-0.default.svc.cluster.local:8080" in result.stdout
    hashed = re.compile(r"argon2:[^\"]*|windlass.dev/password: .*")
    again = windlass("render", "--config", EXAMPLE).stdout
    assert again != result.stdout, "each hash has its own salt"
    assert hashed.sub("", again) == hashed.sub("", result.stdout)
    assert result.stderr == ""


def test_target_framework_renders_a_framework() -> None:
    result = windlass("render", EXAMPLE, "--target", "framework")
    assert kinds(result) == ["Framework", "Secret", "ConfigMap", "Deployment", "Service"]


def test_only_one_part_is_rendered() -> None:
    found = kinds(windlass("render", EXAMPLE, "--only", "jupyter"))
    assert found == ["Secret", "ConfigMap", "Deployment", "Service"]


def test_templates_are_read_from_the_directory_of_the_config(tmp_path: Path) -> None:
    file = written(tmp_path, OWN)
    (body,) = yaml.safe_load_all(windlass("render", file).stdout)
    assert (body["metadata"]["name"], body["data"]) == ("a", {"size": "3"})
    assert windlass("lint", file).exit_code == 0


def test_link_to_a_template_outside_the_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(TEMPLATE)
    folder = tmp_path / "configs"
    folder.mkdir()
    file = written(folder, OWN)
    (folder / "own" / "it.jinja").unlink()
    (folder / "own" / "it.jinja").symlink_to(tmp_path / "secret")
    for command in ("render", "lint"):
        result = windlass(command, file)
        assert (result.exit_code, "kind" in result.stdout) == (2, False)
        assert "own/it.jinja is a link to" in result.stderr


def test_templates_of_standard_input_are_read_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, OWN)
    monkeypatch.chdir(tmp_path)
    assert kinds(windlass("render", "-", stdin=OWN)) == ["ConfigMap"]


BAD: dict[str, tuple[str | bytes | None, str]] = {
    "not there": (
        None,
        'config.yaml:1:18: error: imports[0].path: found no file "own/it.jinja" in the folder of the config',
    ),
    "an undefined variable": (
        "\n{{ sise }}",
        'own/it.jinja:2: the variable "sise" is not defined. Did you mean "size"?',
    ),
    "not text": (b"a: \xff", "it.jinja:1:4: found the byte 0xff, expected UTF-8 text"),
}


@pytest.mark.parametrize(("template", "words"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("command", ["lint", "lint --fix", "render", "plan", "run", "submit --dry-run"])
def test_invalid_template_is_reported_in_one_message(
    tmp_path: Path, command: str, template: str | bytes | None, words: str
) -> None:
    file = written(tmp_path, CLUSTER, template)
    result = windlass(*command.split(), file)
    assert result.exit_code in (1, 2)
    assert result.output.count(words) == 1
    assert "Traceback" not in result.output
    assert file.read_text() == CLUSTER


def test_output_is_not_written_after_an_error(tmp_path: Path) -> None:
    file, out = written(tmp_path, CLUSTER, "{{ nothing }}"), tmp_path / "out.yaml"
    assert windlass("render", file, "--out", out).exit_code == 2
    assert not out.exists()


@pytest.mark.parametrize("command", ["plan", "run", "submit --dry-run"])
def test_config_without_a_job_cannot_be_run(tmp_path: Path, command: str) -> None:
    result = windlass(*command.split(), written(tmp_path, NOTEBOOK))
    assert result.exit_code == 2
    assert "it has no job, only other objects: create them with `windlass render`" in result.output


def test_generated_password_is_shown_once(tmp_path: Path) -> None:
    file = written(tmp_path, CLUSTER + "- {type: jupyter-service, properties: {image: i}}\n")
    result = windlass("render", file)
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    found = re.fullmatch(
        rf"{file}: generated password of jupyter-service \(shown once\): (\S{{20,}})",
        line,
    )
    assert found is not None
    assert found[1] not in result.stdout
    assert windlass("render", file, "--only", "roles").stderr == ""


def test_config_without_a_job_can_be_rendered(tmp_path: Path) -> None:
    assert kinds(windlass("render", written(tmp_path, NOTEBOOK))) == ["Secret", "Deployment", "Service"]


def test_sdk_reads_configs(tmp_path: Path) -> None:
    contents = sources.read(written(tmp_path, CLUSTER)).contents
    assert [each.name for each in contents.submissions] == ["tensorflow-cluster"]
    assert [body["kind"] for body in contents.extra_manifests] == ["ConfigMap"]


def test_sdk_rejects_a_config_without_a_job(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match="it has no job"):
        sources.read(written(tmp_path, NOTEBOOK))


def test_plan_treats_parameter_servers_as_endless() -> None:
    result = windlass("plan", EXAMPLE)
    assert result.exit_code == 0
    assert "tensorflow-cluster does not end" in result.output
