"""The locks in requirements/ and the tool that writes them."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import update_lock
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from images import catalogue

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = PROJECT["project"]["dependencies"]
BUILD = PROJECT["build-system"]["requires"]
LOCKS = {
    "requirements/build.txt": BUILD,
    "requirements/ci.txt": [*RUNTIME, *BUILD, *PROJECT["project"]["optional-dependencies"]["dev"]],
    "requirements/image.txt": RUNTIME,
    "docker/hub/requirements.txt": catalogue.HUB_REQUIREMENTS,
}
COMPILED = {
    "aiohttp",
    "frozenlist",
    "google-re2",
    "msgspec",
    "multidict",
    "propcache",
    "pyyaml",
    "uvloop",
    "yarl",
}
ENTRY = re.compile(r"([a-z0-9-]+)==([^ ]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


def locked(path: str) -> dict[str, str]:
    """Return the versions by package. Every line must be part of an entry with hashes, so no index can be named."""
    text = (ROOT / path).read_text()
    assert ENTRY.sub("", text) == update_lock.HEADER
    return {package: version for package, version, _ in ENTRY.findall(text)}


@pytest.mark.parametrize("path", LOCKS)
def test_lock_has_a_valid_version_of_every_dependency(path: str) -> None:
    versions = locked(path)
    for text in LOCKS[path]:
        requirement = Requirement(text)
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), text


def test_locks_have_the_files_of_each_python_of_ci() -> None:
    """A compiled package has one file for each Python and machine."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())
    assert set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"]) <= set(update_lock.PYTHONS)
    files = len(update_lock.PYTHONS) * len(update_lock.MACHINES)
    for path in LOCKS:
        for package, _, hashes in ENTRY.findall((ROOT / path).read_text()):
            if package in COMPILED:
                assert hashes.count("--hash") >= files, (path, package)


def test_locks_agree() -> None:
    for name in ("build", "image"):
        assert locked(f"requirements/{name}.txt").items() <= locked("requirements/ci.txt").items()


def package(name: str, *requires: str) -> Any:
    return {"metadata": {"name": name, "requires_dist": list(requires)}}


FOUND = {
    "a": package("a", "b", 'c; extra == "fast"', 'd; extra == "slow"'),
    "b": package("b", "a[fast]", 'd; python_version < "3"'),
    "c": package("c"),
    "d": package("d"),
}


@pytest.mark.parametrize(
    ("requirements", "needed"),
    [(["A"], {"a", "b", "c"}), (["a[slow]"], {"a", "b", "c", "d"}), (["c", "d; python_version<'3'"], {"c"})],
)
def test_closure_follows_extras_and_markers(requirements: list[str], needed: set[str]) -> None:
    assert update_lock.closure(requirements, FOUND) == needed


def test_pip_never_builds_source_distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building one would run its code."""
    settings = []

    def run(words: list[str], env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        settings.append(env.get("PIP_ONLY_BINARY"))
        if "--report" in words:
            Path(words[words.index("--report") + 1]).write_text('{"install": []}')
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    update_lock.Pip(tmp_path).resolve_for_all_targets(["a"])
    assert settings == [":all:"] * (2 + len(update_lock.PYTHONS) * len(update_lock.MACHINES))


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ({"license_expression": "MIT", "license": "other"}, "MIT"),
        ({"classifier": ["License :: OSI Approved :: BSD License", "Typing :: Typed"]}, "BSD License"),
        ({"license": "Apache 2.0"}, "Apache 2.0"),
        ({"license": "Permission is hereby\ngranted"}, "see the package"),
        ({"license": "BSD 3-Clause License\n\nCopyright (c) 2017"}, "BSD 3-Clause License"),
    ],
)
def test_licence_of_a_package(metadata: dict[str, Any], licence: str) -> None:
    assert update_lock.licence_of(metadata) == licence


def test_every_locked_package_has_a_licence() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    assert text.startswith(update_lock.PAGE)
    assert text.endswith(update_lock.dashboard())
    locks = text.removeprefix(update_lock.PAGE).removesuffix(update_lock.dashboard())
    rows = [row.split(" | ") for row in locks.splitlines()]
    packages = {**locked("requirements/ci.txt"), **locked("docker/hub/requirements.txt")}
    assert [row[0] for row in rows] == [f"| {name}" for name in sorted(packages)]
    assert not {"", "see the package"} & {row[1] for row in rows}
