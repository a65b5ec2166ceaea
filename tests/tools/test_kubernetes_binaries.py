"""The cache of Kubernetes programs: its keys, the choice of a release, and the generated Go module."""

import platform
import shutil
from pathlib import Path

import pytest

import kubernetes_binaries
import kubernetes_oldest
import workshops
from windlass.localcluster.apiserver.openapi import discovery

KEY = kubernetes_binaries.cache_key("aarch64", {})


def write_program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def fill(folder: Path, names: tuple[str, ...] = kubernetes_binaries.PROGRAMS) -> Path:
    for name in names:
        write_program(folder / "bin" / name)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this machine's programs, which does not exist yet."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    return tmp_path / "windlass" / "kubernetes" / KEY


@pytest.mark.parametrize(
    ("machine", "choice", "key"),
    [
        ("x86_64", "", f"v{kubernetes_binaries.VERSION}-{kubernetes_binaries.RECIPE}-amd64"),
        ("arm64", "1.37", f"v{kubernetes_binaries.VERSION}-{kubernetes_binaries.RECIPE}-arm64"),
        ("AMD64", "1.20", "v1.20.2-2-amd64"),
        ("aarch64", "1.20", "v1.20.2-2-arm64"),
    ],
)
def test_key_names_version_recipe_and_architecture(machine: str, choice: str, key: str) -> None:
    assert kubernetes_binaries.cache_key(machine, {"KUBERNETES": choice}) == key


def test_unknown_release_is_rejected() -> None:
    with pytest.raises(
        kubernetes_binaries.BinariesError, match=r"KUBERNETES=1\.25 is not .*1\.37 .*1\.20.*KUBECONFIG"
    ):
        kubernetes_binaries.ensure({"KUBERNETES": "1.25"})


def test_unknown_architecture_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(kubernetes_binaries.BinariesError, match=r"riscv64.*amd64, arm64.*KUBEBUILDER_ASSETS"):
        kubernetes_binaries.ensure({"XDG_CACHE_HOME": str(tmp_path)})


def test_complete_cache_is_returned_without_a_build(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cache)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: pytest.fail("looked for a program"))
    assert kubernetes_binaries.ensure({"XDG_CACHE_HOME": str(tmp_path)}) == cache / "bin"
    assert [path.name for path in cache.parent.iterdir()] == [KEY]


def test_oldest_release_has_a_cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    environment = {"XDG_CACHE_HOME": str(tmp_path), "KUBERNETES": "1.20"}
    kept = tmp_path / "windlass/kubernetes" / kubernetes_binaries.cache_key("aarch64", environment)
    fill(kept, kubernetes_oldest.PROGRAMS)
    folder = kubernetes_binaries.ensure(environment)
    assert folder == kept / "bin"
    assert [path.name for path in kubernetes_binaries.kubectls(folder)] == ["kubectl-1.20", "kubectl-1.32"]


def test_message_says_what_to_do_without_apt(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(
        kubernetes_binaries.BinariesError, match=r"requires apt-get, .*KUBEBUILDER_ASSETS.*KUBECONFIG"
    ):
        kubernetes_binaries.ensure({"XDG_CACHE_HOME": str(tmp_path), "KUBERNETES": "1.20"})
    assert not cache.parent.exists()


class TestAssets:
    def test_complete_folder_is_used(self, tmp_path: Path) -> None:
        for name in ("etcd", "kube-apiserver", "kubectl"):
            write_program(tmp_path / name)
        assert kubernetes_binaries.ensure({"KUBEBUILDER_ASSETS": str(tmp_path)}) == tmp_path
        assert kubernetes_binaries.kubectls(tmp_path) == (tmp_path / "kubectl",)

    def test_incomplete_folder_is_rejected(self, tmp_path: Path) -> None:
        write_program(tmp_path / "etcd")
        (tmp_path / "kube-apiserver").write_text("not executable")
        with pytest.raises(kubernetes_binaries.BinariesError, match="no program kube-apiserver"):
            kubernetes_binaries.ensure({"KUBEBUILDER_ASSETS": str(tmp_path)})


def test_embedded_server_claims_the_release_that_is_built() -> None:
    assert kubernetes_binaries.VERSION == discovery.KUBERNETES_VERSION


def test_generated_module_replaces_staging_modules_with_published_ones() -> None:
    published = (
        "module k8s.io/kubernetes\n\ngo 1.26.0\n\ngodebug default=go1.26\n\nrequire (\n\tk8s.io/api v0.0.0\n)\n\n"
        "replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n"
        "\tk8s.io/kubectl => ./staging/src/k8s.io/kubectl\n)\n"
    )
    assert kubernetes_binaries.kubernetes_module(published, "1.37.1").splitlines() == [
        "module windlass.dev/kubernetes-build",
        "go 1.26.0",
        "godebug default=go1.26",
        "require k8s.io/kubernetes v1.37.1",
        "replace k8s.io/api => k8s.io/api v0.37.1",
        "replace k8s.io/kubectl => k8s.io/kubectl v0.37.1",
    ]


def test_module_without_staging_modules_is_rejected() -> None:
    with pytest.raises(workshops.WorkshopError, match="no staging modules"):
        kubernetes_binaries.kubernetes_module("module k8s.io/kubernetes\n\ngo 1.26.0\n", "1.37.1")


def test_link_flags_stamp_the_version() -> None:
    flags = kubernetes_binaries.link_flags("1.37.1")
    assert "-X k8s.io/component-base/version.gitVersion=v1.37.1" in flags
    assert "-X k8s.io/client-go/pkg/version.gitMinor=37" in flags


def test_oldest_release_generates_openapi_definitions_for_marked_packages(tmp_path: Path) -> None:
    marked, plain = "// +k8s:openapi-gen=true\npackage x\n", "package x\n"
    files = {
        "pkg/apis/abac/v0/doc.go": marked,
        "pkg/plain/doc.go": plain,
        "staging/src/k8s.io/api/core/v1/doc.go": plain + marked,
        "staging/src/k8s.io/api/tested/v1/doc_test.go": marked,
        "staging/src/k8s.io/sample-apiserver/v1/doc.go": marked,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    arguments = kubernetes_oldest._openapi_arguments(tmp_path, tmp_path / "report")
    assert arguments[arguments.index("-i") + 1] == (
        "k8s.io/kubernetes/pkg/apis/abac/v0,k8s.io/kubernetes/vendor/k8s.io/api/core/v1"
    )


def test_minor_version() -> None:
    assert [kubernetes_binaries.minor_of(each) for each in ("v1.37.1", "1.20.2", "v1.24.1-rc")] == [
        37,
        20,
        24,
    ]
