"""Makes sure that the programs of a real Kubernetes are on this machine, in a cache outside the checkout.

    python tools/kubernetes_binaries.py     prints the folder that holds them; progress goes to stderr

Debian has all that it takes: etcd and kubectl as packages, the rest as a source package with its vendored
dependencies, and the Go compiler that builds it. Nothing is installed and nobody has to be root: apt works on
folders of its own, with this machine's own sources of packages, and the packages are only unpacked.

The first run takes minutes, every later one is a look at a folder. Where KUBEBUILDER_ASSETS names a folder with
etcd and kube-apiserver, that one is used and nothing is built. Starting the programs is kubernetes_api.py's task.
Only the standard library is used here, so that any Python 3.11 can run it.
"""

import contextlib
import dataclasses
import fcntl
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import debian_sources  # beside this file
import programs  # beside this file

VERSION: Final = "1.20.2"
RECIPE: Final = 2
"""Part of the cache's key: to be raised when the same version is built in another way."""

BUILT: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
BINARIES: Final = ("etcd", *BUILT, "kubectl-1.20", "kubectl-1.32")
ASSETS_NEEDED: Final = ("etcd", "kube-apiserver")
KUBECTLS: Final = ("kubectl-1.20", "kubectl-1.32", "kubectl")

ARCHITECTURES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
PROGRAMS_NEEDED: Final = ("apt-get", "apt-config", "dpkg-deb", "tar")

SUITE: Final = "bookworm"
GO: Final = "1.19"
REFLECT2: Final = "github.com/modern-go/reflect2"
PACKAGES: Final = (
    "etcd-server",
    "kubernetes-client",
    f"golang-{GO}-go",
    f"golang-{GO}-src",
    "golang-github-modern-go-reflect2-dev",
)
SOURCE_PACKAGE: Final = "kubernetes"
NEWER_SUITE: Final = "trixie"
NEWER_PACKAGES: Final = ("kubectl",)

OTHERWISE: Final = (
    "Set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver, "
    "or KUBECONFIG to the file of a running cluster."
)


class BinariesError(Exception):
    """The programs cannot be had. The message says why, and what to do."""


# Where they are


def ensure(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder that holds the programs, after building them where they are missing."""
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        return _of_assets(Path(assets))
    root = cache_root(environment)
    kept = root / cache_key(platform.machine()) / "bin"
    if _is_complete(kept):
        return kept
    _refuse_a_machine_that_cannot_build()
    with _locked(root, kept.parent.name):
        if not _is_complete(kept):
            _build_into(kept.parent)
    return kept


def kubectls(folder: Path) -> tuple[Path, ...]:
    """Every kubectl there, the oldest first."""
    return tuple(folder / name for name in KUBECTLS if _is_program(folder / name))


def cache_root(environment: Mapping[str, str]) -> Path:
    caches = environment.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "windlass" / "kubernetes"


def cache_key(machine: str) -> str:
    architecture = ARCHITECTURES.get(machine.lower())
    if architecture is None:
        known = ", ".join(sorted(set(ARCHITECTURES.values())))
        raise BinariesError(
            f"No Kubernetes is built for this machine ({machine}), only for {known}. {OTHERWISE}"
        )
    return f"v{VERSION}-{RECIPE}-{architecture}"


def _of_assets(folder: Path) -> Path:
    missing = [name for name in ASSETS_NEEDED if not _is_program(folder / name)]
    if missing:
        raise BinariesError(
            f"KUBEBUILDER_ASSETS names {folder}, which has no program called {' and none called '.join(missing)}. "
            f"Name a folder with {' and '.join(ASSETS_NEEDED)}, or unset it to have them built."
        )
    return folder.absolute()


def _is_complete(folder: Path) -> bool:
    return all(_is_program(folder / name) for name in BINARIES)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _refuse_a_machine_that_cannot_build() -> None:
    missing = [program for program in PROGRAMS_NEEDED if shutil.which(program) is None]
    if missing:
        raise BinariesError(
            f"Kubernetes is built from Debian's packages, and this machine has no {', '.join(missing)}. {OTHERWISE}"
        )


@contextlib.contextmanager
def _locked(root: Path, key: str) -> Iterator[None]:
    """One builder at a time. The lock is the kernel's: it ends with its holder, however that one ends."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / f"{key}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another process is building Kubernetes {VERSION}; waiting for it.", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# The build


def release_of_machine() -> str:
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    if system.get("ID") != "debian" or not system.get("VERSION_CODENAME"):
        found = system.get("PRETTY_NAME", platform.system())
        raise BinariesError(
            f"Kubernetes is built from Debian's packages, and this machine runs {found}. {OTHERWISE}"
        )
    return system["VERSION_CODENAME"]


@dataclasses.dataclass(frozen=True)
class Workshop:
    """The folder of one build, and the log of all that was run there. Only the log outlives the build."""

    folder: Path
    log: Path
    started: float

    def say(self, what: str) -> None:
        print(f"[{time.monotonic() - self.started:4.0f} s] {what}", file=sys.stderr, flush=True)

    def run(self, argv: Sequence[str | Path], cwd: Path, environment: Mapping[str, str]) -> None:
        """Runs it to its end. Whatever ends us first ends it too, with all that it started."""
        with self.log.open("a") as log:
            print("$", *argv, file=log, flush=True)
            process = subprocess.Popen(  # noqa: S603
                argv,
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if code != 0:
            raise BinariesError(
                f"`{' '.join(map(str, argv))[:120]}` ended with exit code {code}. The last lines of {self.log}:\n"
                f"{programs.tail(self.log)}\n{OTHERWISE}"
            )


def _build_into(destination: Path) -> None:
    root, key = destination.parent, destination.name
    for left_over in root.glob(f"{key}.work-*"):  # of a builder that was killed: the lock is ours
        shutil.rmtree(left_over, ignore_errors=True)
    log = root / f"{key}.log"
    log.write_text("")
    with tempfile.TemporaryDirectory(prefix=f"{key}.work-", dir=root) as name:
        shop = Workshop(Path(name), log, time.monotonic())
        shop.say(
            f"Kubernetes {VERSION} is not in {destination}: building it, which takes minutes; log: {log}"
        )
        built = _built(shop)
        shutil.rmtree(destination, ignore_errors=True)
        built.rename(destination)
    shop.say(f"done: {destination / 'bin'}")


def _built(shop: Workshop) -> Path:
    """A folder with a complete bin folder in it."""
    release = release_of_machine()
    shop.say(f"fetching packages of Debian {SUITE}")
    tree = _unpacked(shop, release, SUITE, PACKAGES)
    shop.say(f"fetching packages of Debian {NEWER_SUITE}")
    newer = _unpacked(shop, release, NEWER_SUITE, NEWER_PACKAGES)
    shop.say("unpacking the source")
    source = _unpacked_source(shop)
    _mend(source, tree)
    target = shop.folder / "done" / "bin"
    target.mkdir(parents=True)
    _compile(shop, source, tree / "usr" / "lib" / f"go-{GO}", target)
    shutil.copy2(tree / "usr/bin/etcd", target / "etcd")
    shutil.copy2(tree / "usr/bin/kubectl", target / "kubectl-1.20")
    shutil.copy2(newer / "usr/bin/kubectl", target / "kubectl-1.32")
    for binary in BINARIES:
        question = ["version", "--client"] if binary.startswith("kubectl") else ["--version"]
        shop.run([target / binary, *question], shop.folder, os.environ)
    return target.parent


def _apt(shop: Workshop, release: str, suite: str) -> dict[str, str]:
    """The environment in which apt-get knows the packages of that suite."""
    folder = shop.folder / "apt" / suite
    for name in ("no-parts", "sources", "lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    for file in _sources(release, suite):
        (folder / "sources" / file.name).write_text(file.text)
    command = ["apt-config", "dump"]
    dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    (folder / "apt.conf").write_text(debian_sources.apt_configuration(dump, folder))
    return {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C.UTF-8"}


def _sources(release: str, suite: str) -> tuple[debian_sources.SourceFile, ...]:
    try:
        return debian_sources.for_release(debian_sources.of_machine(Path("/etc/apt")), release, suite)
    except debian_sources.SourcesError as error:
        raise BinariesError(
            f"Kubernetes is built from Debian's packages, but {error}. {OTHERWISE}"
        ) from error


def _unpacked(shop: Workshop, release: str, suite: str, packages: Sequence[str]) -> Path:
    """A folder with the files of those packages, as they would lie under the root folder."""
    apt = _apt(shop, release, suite)
    fetched = shop.folder / "packages" / suite
    fetched.mkdir(parents=True)
    shop.run(["apt-get", "--quiet", "update"], fetched, apt)
    shop.run(["apt-get", "--quiet", "download", *packages], fetched, apt)
    if suite == SUITE:
        source = ["apt-get", "--quiet", "source", "--download-only", "--only-source", SOURCE_PACKAGE]
        shop.run(source, fetched, apt)
    tree = shop.folder / "trees" / suite
    tree.mkdir(parents=True)
    for package in fetched.glob("*.deb"):
        shop.run(["dpkg-deb", "--extract", package, tree], fetched, os.environ)
    return tree


def _unpacked_source(shop: Workshop) -> Path:
    """Kubernetes at its place in a GOPATH. Debian's own patches change only kubectl, which is not built here."""
    archives = [*(shop.folder / "packages" / SUITE).glob(f"{SOURCE_PACKAGE}_*.orig.tar.*")]
    if not any(VERSION in archive.name for archive in archives):
        found = ", ".join(archive.name for archive in archives) or "nothing"
        raise BinariesError(f"Debian's source package was to hold Kubernetes {VERSION}; it holds {found}.")
    source = shop.folder / "gopath/src/k8s.io/kubernetes"
    source.mkdir(parents=True)
    shop.run(["tar", "-xf", archives[0], "-C", source, "--strip-components=1"], shop.folder, os.environ)
    return source


def _mend(source: Path, tree: Path) -> None:
    """Two things that this source gets wrong when a compiler newer than itself builds it."""
    _replace_reflect2(source / "vendor" / REFLECT2, tree / "usr/share/gocode/src" / REFLECT2)
    _tell_empty_from_null(source)


def _replace_reflect2(vendored: Path, newer: Path) -> None:
    """The vendored 1.0.1 crashes under Go 1.18 and newer, with the first custom resource; 1.0.2 does not."""
    for pattern in ("*.go", "*.s"):
        for old in vendored.glob(pattern):
            old.unlink()
        for new in newer.glob(pattern):
            shutil.copy(new, vendored)


def _tell_empty_from_null(source: Path) -> None:
    """Two reflect.Values compared deeply tell nothing: under Go 1.19, "" in a custom resource is taken for null."""
    compared = "data == nil || reflect.DeepEqual(reflect.Zero(reflect.TypeOf(data)), reflect.ValueOf(data))"
    mended = 0
    for path in (source / "vendor").glob("**/validate/type.go"):
        text = path.read_text()
        if compared in text:
            path.write_text(text.replace(compared, "data == nil"))
            mended += 1
    if not mended:
        raise BinariesError(
            "the check of custom resources looks different from the one that is to be mended."
        )


def _compile(shop: Workshop, source: Path, goroot: Path, target: Path) -> None:
    """What `make` does in that tree, less what the source package has already: only the OpenAPI part is missing."""
    go = {name: value for name, value in os.environ.items() if not name.startswith("GO")} | {
        "GOROOT": str(goroot),
        "GOPATH": str(shop.folder / "gopath"),
        "GOCACHE": str(shop.folder / "gocache"),
        "GOTMPDIR": str(shop.folder),
        "GO111MODULE": "off",
        "GOFLAGS": "-trimpath",
        "CGO_ENABLED": "0",
    }
    shop.say("generating the OpenAPI definitions")
    generator = shop.folder / "openapi-gen"
    compiler = goroot / "bin" / "go"
    shop.run([compiler, "build", "-o", generator, "./vendor/k8s.io/kube-openapi/cmd/openapi-gen"], source, go)
    shop.run([generator, *_openapi_arguments(source, shop.folder / "violations")], source, go)
    shop.say(f"compiling {', '.join(BUILT)} (most of the time goes here)")
    commands = [f"./cmd/{name}" for name in BUILT]
    shop.run([compiler, "build", "-o", f"{target}/", "-ldflags", _link_flags(), *commands], source, go)


def _openapi_arguments(source: Path, report: Path) -> list[str | Path]:
    marked = re.compile(rb"^// *\+k8s:openapi-gen=", re.MULTILINE)
    others = {"code-generator", "sample-apiserver"}  # examples, with definitions of their own
    packages = {
        str(path.parent.relative_to(source)).replace("staging/src/", "vendor/")
        for place in ("pkg", "staging/src/k8s.io")
        for path in (source / place).rglob("*.go")
        if others.isdisjoint(path.parts)
        and not path.name.endswith("_test.go")
        and marked.search(path.read_bytes())
    }
    inputs = ",".join(sorted(f"k8s.io/kubernetes/{package}" for package in packages))
    output = ["-p", "k8s.io/kubernetes/pkg/generated/openapi", "-O", "zz_generated.openapi"]
    header = "vendor/k8s.io/code-generator/hack/boilerplate.go.txt"
    return ["--logtostderr", "-i", inputs, *output, "-h", header, "-r", report]


def _link_flags() -> str:
    major, minor, _ = VERSION.split(".")
    facts = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    packages = ("component-base/version", "client-go/pkg/version")
    stamps = [f"-X k8s.io/kubernetes/vendor/k8s.io/{p}.{k}={v}" for p in packages for k, v in facts.items()]
    return " ".join(["-s -w", *stamps])


def main() -> int:
    try:
        with programs.cleaning_up_on_sigterm():
            print(ensure())
    except BinariesError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
