"""The cache of programs: where it is, who fills it, and what is left when that fails."""

import fcntl
import platform
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from tests.tools.lifeline import Lifeline

import kubernetes_binaries

TOOLS = Path(kubernetes_binaries.__file__).parent
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


def test_another_architecture_is_refused() -> None:
    with pytest.raises(kubernetes_binaries.BinariesError, match=r"riscv64.*amd64, arm64.*KUBEBUILDER_ASSETS"):
        kubernetes_binaries.cache_key("riscv64")


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"XDG_CACHE_HOME": "/caches"}, Path("/caches/windlass/kubernetes")),
        ({"XDG_CACHE_HOME": ""}, Path.home() / ".cache/windlass/kubernetes"),
        ({}, Path.home() / ".cache/windlass/kubernetes"),
    ],
)
def test_the_cache_is_outside_the_checkout(environment: dict[str, str], root: Path) -> None:
    assert kubernetes_binaries.cache_root(environment) == root


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


@pytest.mark.parametrize("system", [{"ID": "ubuntu", "PRETTY_NAME": "Ubuntu 24.04"}, {"ID": "debian"}])
def test_another_system_is_refused(monkeypatch: pytest.MonkeyPatch, system: dict[str, str]) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    with pytest.raises(kubernetes_binaries.BinariesError, match=r"runs (Ubuntu|Linux|Darwin).*KUBECONFIG"):
        kubernetes_binaries.release_of_machine()


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


def test_two_at_once_build_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[Path] = []
    second_waits = threading.Event()
    lock = fcntl.flock

    def spy(file: int, how: int) -> None:
        try:
            lock(file, how)
        except BlockingIOError:
            second_waits.set()
            raise

    def build(destination: Path) -> None:
        assert second_waits.wait(60)
        built.append(fill(destination))

    monkeypatch.setattr(fcntl, "flock", spy)
    monkeypatch.setattr(kubernetes_binaries, "_build_into", build)
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/true")
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    threads = [threading.Thread(target=kubernetes_binaries.ensure, args=(environment,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == [cache]
    assert "Another process is building" in capsys.readouterr().err


class TestBuild:
    def test_what_is_built_comes_into_place_whole(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def built(shop: kubernetes_binaries.Workshop) -> Path:
            assert not (cache / "bin" / "etcd").exists()
            return fill(shop.folder / "done")

        (cache / "bin").mkdir(parents=True)  # somebody removed the files
        (cache.parent / f"{KEY}.work-of-one-who-was-killed").mkdir()
        monkeypatch.setattr(kubernetes_binaries, "_built", built)
        kubernetes_binaries._build_into(cache)
        assert sorted(path.name for path in (cache / "bin").iterdir()) == sorted(kubernetes_binaries.BINARIES)
        assert sorted(path.name for path in cache.parent.iterdir()) == [KEY, f"{KEY}.log"]

    def test_a_failure_leaves_only_its_log(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def built(shop: kubernetes_binaries.Workshop) -> Path:
            script = "echo compiling; echo it is broken >&2; exit 7"
            shop.run(["/bin/sh", "-c", script], shop.folder, {})
            raise AssertionError("unreachable")

        cache.parent.mkdir(parents=True)
        monkeypatch.setattr(kubernetes_binaries, "_built", built)
        log = cache.parent / f"{KEY}.log"
        with pytest.raises(kubernetes_binaries.BinariesError) as caught:
            kubernetes_binaries._build_into(cache)
        message = str(caught.value)
        assert "exit code 7" in message
        assert str(log) in message
        assert "    compiling\n    it is broken\n" in message
        assert list(cache.parent.iterdir()) == [log]

    def test_ending_us_ends_what_we_run(self, tmp_path: Path, lifeline: Lifeline) -> None:
        script = textwrap.dedent(f"""
            import sys
            from pathlib import Path
            sys.path.insert(0, {str(TOOLS)!r})
            import kubernetes_binaries, programs
            folder = Path({str(tmp_path)!r})
            shop = kubernetes_binaries.Workshop(folder, folder / "log", 0.0)
            with programs.cleaning_up_on_sigterm():
                shop.run(["/bin/sh", "-c", {f"({lifeline.script}) & wait"!r}], folder, {{}})
        """)
        process = subprocess.Popen([sys.executable, "-c", script])  # noqa: S603
        try:
            lifeline.wait_for_start()
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 128 + signal.SIGTERM
        finally:
            process.kill()
            process.wait()
        lifeline.wait_for_end()


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
