"""The release tool, the changelog, the bills of materials and the workflows."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import go_programs
import release
import sbom
from release import ReleaseError
from windlass import __version__

ROOT = Path(__file__).parents[2]
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


# Versions and the changelog


def test_versions_of_package_changelog_and_chart_agree() -> None:
    release.check_versions()
    chart = yaml.safe_load((ROOT / "charts" / "windlass" / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


@pytest.mark.parametrize(
    ("declared", "changelog", "error"),
    [
        ("1.0", "## [1.1] - 2027-01-01", "the newest release in CHANGELOG.md is 1.1, not 1.0"),
        ("1.0", "## [Unreleased]", "the newest release in CHANGELOG.md is missing"),
        ("0.9", "## [1.0] - 2027-01-01", "pyproject.toml has version 0.9"),
    ],
)
def test_version_that_differs_stops_the_release(
    tmp_path: Path, declared: str, changelog: str, error: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{declared}"\n')
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    with pytest.raises(ReleaseError, match=re.escape(error)):
        release.check_versions(tmp_path, "1.0")


def test_changelog_has_the_form_of_keep_a_changelog() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert lines[0] == "# Changelog"
    releases = [line for line in lines if line.startswith("## ")]
    assert releases[0] == "## [Unreleased]"
    matches = [
        re.fullmatch(r"## \[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d{2}-\d{2})", line) for line in releases[1:]
    ]
    assert all(matches), releases
    versions = [tuple(map(int, found.group(1, 2, 3))) for found in matches if found]
    assert versions == sorted(versions, reverse=True)
    assert {line.removeprefix("### ") for line in lines if line.startswith("### ")} <= KINDS


# Archives


def test_archive_depends_only_on_content_and_time(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    digests = []
    for number in range(2):
        os.utime(tmp_path / "a", (number, number))
        target = tmp_path / f"{number}.tgz"
        release.write_archive(target, {"x/a": tmp_path / "a"}, 1_700_000_000)
        digests.append(hashlib.sha256(target.read_bytes()).hexdigest())
    assert digests[0] == digests[1]
    with tarfile.open(tmp_path / "0.tgz") as archive:
        assert [(one.name, one.mtime, one.size) for one in archive] == [("x/a", 1_700_000_000, 7)]


def packed(folder: Path, wheel: set[str], source: set[str]) -> tuple[Path, Path]:
    with zipfile.ZipFile(folder / "w.whl", "w") as archive:
        for name in wheel:
            archive.writestr(name, "")
    empty = folder / "empty"
    empty.touch()
    release.write_archive(folder / "s.tar.gz", {f"windlass-1/{name}": empty for name in source}, 0)
    return folder / "w.whl", folder / "s.tar.gz"


COMPLETE = {release.PAGE, "windlass/py.typed", "windlass/jobfile/job.schema.json"}


@pytest.mark.parametrize(
    ("added", "removed", "named"),
    [
        (set(), {release.PAGE}, release.PAGE),
        ({"tests/test_x.py"}, set(), "tests/test_x.py"),
        ({"windlass/__pycache__/x.pyc"}, set(), "__pycache__"),
    ],
    ids=["page missing", "tests included", "caches included"],
)
def test_incomplete_or_foreign_content_stops_the_release(
    tmp_path: Path, added: set[str], removed: set[str], named: str
) -> None:
    source = {f"src/{name}" for name in COMPLETE}
    release.check_contents(*packed(tmp_path, COMPLETE, source))
    with pytest.raises(ReleaseError, match=re.escape(named)):
        release.check_contents(*packed(tmp_path, COMPLETE - removed | added, source))


def test_chart_archive_has_the_files_that_helm_needs() -> None:
    files = release.chart_files()
    assert {"windlass/Chart.yaml", "windlass/values.yaml", "windlass/templates/access.yaml"} <= files.keys()
    assert "windlass/definitions/kustomization.yaml" not in files


def test_only_working_pythons_outside_of_environments_are_tried(tmp_path: Path) -> None:
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\necho 'version not selected' >&2; exit 127\n")
    broken.chmod(0o755)
    own = Path(os.path.realpath(shutil.which("python3") or ""))
    found = release.pythons({"PATH": str(tmp_path), "PYTHONS": str(own), "PYENV_ROOT": str(tmp_path)})
    assert list(found.values()) == [own]
    assert re.fullmatch(r"3\.\d+\.\d+", next(iter(found)))


# Bills of materials


def test_bills_of_materials_have_every_locked_package_with_hash_and_licence() -> None:
    found = sbom.boms()
    for image, lock in (
        ("windlass", "requirements/image.txt"),
        ("windlass-hub", "docker/hub/requirements.txt"),
    ):
        locked = set(re.findall(r"^([a-z0-9-]+==\S+)", (ROOT / lock).read_text(), re.MULTILINE))
        python = [one for one in found[image]["components"] if one["purl"].startswith("pkg:pypi/")]
        assert {f"{one['name']}=={one['version']}" for one in python} == locked
        assert all(one["hashes"] and one["licenses"] for one in python)


def test_bill_of_the_controller_has_the_packages_of_the_page() -> None:
    page = json.loads((ROOT / "ui" / "package.json").read_text())["dependencies"]
    components = sbom.boms()["windlass"]["components"]
    found = {one["name"]: one["version"] for one in components if one["purl"].startswith("pkg:npm/")}
    assert found == page


def test_bills_of_the_same_content_are_equal() -> None:
    assert sbom.boms() == sbom.boms()


# Workflows


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_runs_make_targets_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = set(re.findall(r"\bmake ([a-z-]+)", path.read_text()))
    assert used
    assert used <= targets


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_has_least_permissions_and_timeouts(path: Path) -> None:
    workflow: dict[str, Any] = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in workflow["jobs"].items() if "timeout-minutes" not in job] == []


@pytest.mark.kubernetes
def test_actionlint_finds_no_mistakes() -> None:
    program = go_programs.ensure(go_programs.ACTIONLINT)
    done = subprocess.run([program, "-no-color", *WORKFLOWS], capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.kubernetes
def test_actionlint_detects_a_mistake(tmp_path: Path) -> None:
    program = go_programs.ensure(go_programs.ACTIONLINT)
    file = tmp_path / "x.yaml"
    file.write_text(WORKFLOWS[0].read_text().replace("${{ matrix.python }}", "${{ matrix.pyton }}"))
    done = subprocess.run([program, "-no-color", file], capture_output=True, text=True, check=False)  # noqa: S603
    assert 'property "pyton" is not defined' in done.stdout


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").iterdir()), ids=lambda path: path.name
)
def test_issue_template_has_the_fields_of_a_form(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= form.keys()
    assert any(field.get("validations", {}).get("required") for field in form["body"])
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)
