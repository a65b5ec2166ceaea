"""The cache of Kubernetes' programs: what it is called, and who is refused. How it is filled: test_workshops.py."""

import platform
import shutil
from pathlib import Path

import pytest

import kubernetes_binaries

KEY = kubernetes_binaries.cache_key("aarch64")


def write_program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def fill(folder: Path) -> Path:
    for name in kubernetes_binaries.BINARIES:
        write_program(folder / "bin" / name)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this machine's programs, which is not there yet."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    return tmp_path / "windlass" / "kubernetes" / KEY


@pytest.mark.parametrize(
    ("machine", "key"),
    [
        ("x86_64", "v1.20.2-2-amd64"),
        ("AMD64", "v1.20.2-2-amd64"),
        ("aarch64", "v1.20.2-2-arm64"),
        ("arm64", "v1.20.2-2-arm64"),
    ],
)
def test_the_key_names_version_recipe_and_architecture(machine: str, key: str) -> None:
    assert kubernetes_binaries.cache_key(machine) == key


def test_another_architecture_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(kubernetes_binaries.BinariesError, match=r"riscv64.*amd64, arm64.*KUBEBUILDER_ASSETS"):
        kubernetes_binaries.ensure({"XDG_CACHE_HOME": str(tmp_path)})


def test_a_full_cache_is_only_looked_at(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cache)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert kubernetes_binaries.ensure({"XDG_CACHE_HOME": str(tmp_path)}) == cache / "bin"
    assert [path.name for path in cache.parent.iterdir()] == [KEY]


def test_a_machine_without_apt_is_told_what_else_it_can_do(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(
        kubernetes_binaries.BinariesError, match=r"no apt-get, .*KUBEBUILDER_ASSETS.*KUBECONFIG"
    ):
        kubernetes_binaries.ensure({"XDG_CACHE_HOME": str(tmp_path)})
    assert not cache.parent.exists()


class TestAssets:
    def test_a_folder_with_both_is_used_as_it_is(self, tmp_path: Path) -> None:
        for name in ("etcd", "kube-apiserver", "kubectl"):
            write_program(tmp_path / name)
        assert kubernetes_binaries.ensure({"KUBEBUILDER_ASSETS": str(tmp_path)}) == tmp_path
        assert kubernetes_binaries.kubectls(tmp_path) == (tmp_path / "kubectl",)

    def test_a_folder_that_lacks_one_is_refused(self, tmp_path: Path) -> None:
        write_program(tmp_path / "etcd")
        (tmp_path / "kube-apiserver").write_text("not executable")
        with pytest.raises(kubernetes_binaries.BinariesError, match="no program called kube-apiserver"):
            kubernetes_binaries.ensure({"KUBEBUILDER_ASSETS": str(tmp_path)})


def test_kubectls_come_oldest_first(cache: Path) -> None:
    folder = fill(cache) / "bin"
    found = kubernetes_binaries.kubectls(folder)
    assert [path.name for path in found] == ["kubectl-1.20", "kubectl-1.32"]


def test_every_package_that_asks_for_openapi_definitions_gets_them(tmp_path: Path) -> None:
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
    arguments = kubernetes_binaries._openapi_arguments(tmp_path, tmp_path / "report")
    assert arguments[arguments.index("-i") + 1] == (
        "k8s.io/kubernetes/pkg/apis/abac/v0,k8s.io/kubernetes/vendor/k8s.io/api/core/v1"
    )
