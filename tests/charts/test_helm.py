"""`helm lint` and `helm template`: the chart renders the objects of `windlass install`, for each option."""

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.install.test_manifests import GOLDEN, OPTIONS

import go_programs
import kubernetes_binaries
from windlass.install import manifests
from windlass.install.options import DEFAULT_NAMESPACE, InstallOptions
from windlass.model.base import Json
from windlass.model.settings import History, Settings

pytestmark = pytest.mark.kubernetes

TOP = Path(__file__).parents[2]
CHART = TOP / "charts" / "windlass"
VALUES = Path(__file__).parent / "values"
CONFIGURATION = {"leaseName": "training"}


@pytest.fixture(scope="session")
def helm() -> Path:
    return go_programs.ensure(go_programs.HELM)


def run(helm: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm, *words], capture_output=True, text=True, check=False)  # noqa: S603


def render(helm: Path, folder: Path, values: Json, namespace: str = DEFAULT_NAMESPACE) -> list[Json]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = run(helm, "template", "any", CHART, "--namespace", namespace, "--values", file)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def by_name(objects: Iterable[Json]) -> dict[str, Json]:
    found = {
        f"{one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one
        for one in objects
    }
    # Helm or its user creates the namespace.
    return {name: one for name, one in found.items() if one["kind"] != "Namespace"}


def without_prose(value: Any) -> Any:
    """Remove what the definitions of the chart have in addition: descriptions, and the annotation for Helm."""
    if isinstance(value, list):
        return [without_prose(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: without_prose(each)
        for key, each in value.items()
        if not (key == "description" and isinstance(each, str))
    }
    if kept.get("annotations") == {"helm.sh/resource-policy": "keep"}:
        del kept["annotations"]
    return kept


def installed(options: InstallOptions) -> Any:
    return without_prose(by_name(manifests.all_of(options)))


# The five sets of values


@pytest.mark.parametrize("name", sorted(path.stem for path in VALUES.iterdir()))
def test_rendered_objects_match_the_golden_file_of_install(helm: Path, tmp_path: Path, name: str) -> None:
    values = yaml.safe_load((VALUES / f"{name}.yaml").read_text())
    golden = by_name(yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()))
    found = by_name(render(helm, tmp_path, values, OPTIONS[name].namespace))
    assert {key: one for key, one in found.items() if one["kind"] != "CustomResourceDefinition"} == golden


@pytest.mark.parametrize("name", sorted(path.stem for path in VALUES.iterdir()))
def test_chart_has_no_lint(helm: Path, name: str) -> None:
    done = run(helm, "lint", "--strict", CHART, "--values", VALUES / f"{name}.yaml")
    assert done.returncode == 0, done.stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout


# Each option


def test_default_values_are_those_of_install(helm: Path, tmp_path: Path) -> None:
    found = by_name(render(helm, tmp_path, {}))
    assert without_prose(found) == installed(InstallOptions())


OPTION: dict[str, tuple[Json, Json]] = {
    "image": ({"image": {"repository": "a.example/b", "tag": "2"}}, {"image": "a.example/b:2"}),
    "replicas": ({"replicas": 5}, {"replicas": 5}),
    "namespaces": ({"watchNamespaces": ["a", "b"]}, {"settings": {"namespaces": ("a", "b")}}),
    "configuration": (
        {"configuration": CONFIGURATION},
        {"configuration": "leaseName: training\n", "settings": {"lease_name": "training"}},
    ),
    "definitions": ({"manageCrds": True}, {"settings": {"manage_crds": True}}),
    "history": ({"history": {"enabled": True}}, {"settings": {"history": History(enabled=True)}}),
    "pods": ({"monitoring": {"podMonitor": True}}, {"has_pod_monitor": True}),
    "services": ({"monitoring": {"serviceMonitor": True}}, {"has_service_monitor": True}),
    "network": ({"networkPolicy": {"enabled": True}}, {"has_network_policy": True}),
    "budget": ({"podDisruptionBudget": {"enabled": False}}, {"has_disruption_budget": False}),
    "priority": ({"priorityClassName": "high"}, {"priority_class": "high"}),
    "ui": ({"ui": {"enabled": True}}, {"has_ui": True}),
    "header": ({"ui": {"tokenHeader": "X-Token"}}, {"ui_token_header": "X-Token"}),
    "hosts": ({"ui": {"hosts": ["a", "b"]}}, {"ui_hosts": ("a", "b")}),
}
"""The values and the changed fields of InstallOptions for each option."""


def merged(names: Iterable[str]) -> tuple[Json, InstallOptions]:
    values: Json = {}
    changes: Json = {"settings": {}}
    for name in names:
        for key, value in OPTION[name][0].items():
            values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
        own = OPTION[name][1]
        changes = {**changes, **own, "settings": {**changes["settings"], **own.get("settings", {})}}
    return values, InstallOptions(**{**changes, "settings": Settings(**changes["settings"])})


@pytest.mark.parametrize("name", OPTION)
def test_each_option_alone_renders_what_install_creates(helm: Path, tmp_path: Path, name: str) -> None:
    values, options = merged([name])
    assert without_prose(by_name(render(helm, tmp_path, values))) == installed(options)


@pytest.mark.parametrize("name", OPTION)
def test_all_options_but_one_render_what_install_creates(helm: Path, tmp_path: Path, name: str) -> None:
    values, options = merged(each for each in OPTION if each != name)
    assert without_prose(by_name(render(helm, tmp_path, values))) == installed(options)


def test_definitions_can_be_left_to_another_release(helm: Path, tmp_path: Path) -> None:
    kinds = {one["kind"] for one in render(helm, tmp_path, {"definitions": {"install": False}})}
    assert "Deployment" in kinds
    assert "CustomResourceDefinition" not in kinds


def test_definitions_are_kept_on_uninstall(helm: Path, tmp_path: Path) -> None:
    found = [one for one in render(helm, tmp_path, {}) if one["kind"] == "CustomResourceDefinition"]
    assert len(found) == 3
    assert {one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in found} == {"keep"}


# Refused values


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replica": 2}, "replica"),
        ({"configuration": {"namespaces": ["a"]}}, "/configuration/namespaces"),
        ({"configuration": {"history": {"enabled": True}}}, "/configuration/history/enabled"),
        ({"configuration": {"leaderElection": False}}, "/replicas"),
        ({"history": {"readLogs": True}}, "/history/enabled"),
        ({"watchNamespaces": ["Team A"]}, "/watchNamespaces/0"),
        ({"ui": {"hosts": ["a' --token-header='b"]}}, "/ui/hosts/0"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
    ],
    ids=json.dumps,
)
def test_invalid_values_are_refused_with_their_path(
    helm: Path, tmp_path: Path, values: Json, named: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = run(helm, "template", "any", CHART, "--values", file)
    assert done.returncode != 0
    assert named in done.stderr


# The package and the Kustomize base


def test_packaged_chart_renders_the_same(helm: Path, tmp_path: Path) -> None:
    assert run(helm, "package", CHART, "--destination", tmp_path).returncode == 0
    (package,) = tmp_path.glob("*.tgz")
    done = run(helm, "template", "any", package, "--namespace", DEFAULT_NAMESPACE)
    assert done.returncode == 0, done.stderr
    assert without_prose(by_name(filter(None, yaml.safe_load_all(done.stdout)))) == installed(
        InstallOptions()
    )


def test_kustomize_base_has_the_objects_of_install() -> None:
    kubectl = kubernetes_binaries.kubectls(kubernetes_binaries.ensure())[-1]
    done = subprocess.run(  # noqa: S603
        [kubectl, "kustomize", TOP / "deploy" / "kustomize"],
        capture_output=True,
        text=True,
        env={**os.environ, "KUBECONFIG": os.devnull},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {
        (one["kind"], one["metadata"]["name"]): without_prose(one) for one in yaml.safe_load_all(done.stdout)
    }
    wanted = {
        (one["kind"], one["metadata"]["name"]): without_prose(one)
        for one in manifests.all_of(InstallOptions())
    }
    assert found == wanted


def test_options_cover_every_condition_of_the_templates() -> None:
    """A new option of the generator needs a row in OPTION or a set of values."""
    tested = {field for _, changes in OPTION.values() for field in {**changes, **changes.get("settings", {})}}
    tested |= {
        field
        for options in OPTIONS.values()
        for field in InstallOptions.__struct_fields__
        if getattr(options, field) != getattr(InstallOptions(), field)
    }
    assert set(InstallOptions.__struct_fields__) - tested == set()
    assert msgspec.structs.asdict(merged(OPTION)[1]).keys() == set(InstallOptions.__struct_fields__)
