"""Build Kubernetes 1.20.2, the oldest supported release, from Debian's source package.

Debian has everything: etcd and kubectl as packages, the rest as a source package with its vendored dependencies, and
the Go compiler. Nothing is installed and root is not required: apt works in folders of its own with this machine's
package sources, and packages are only unpacked. `kubernetes_binaries.py` chooses between this and the current release.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Final

import workshops  # next to this file
from workshops import Workshop, WorkshopError

VERSION: Final = "1.20.2"
RECIPE: Final = 2
"""Part of the cache key. Raise it when the same version is built in another way."""

BUILT: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
KUBECTLS: Final = ("kubectl-1.20", "kubectl-1.32")
PROGRAMS: Final = ("etcd", *BUILT, *KUBECTLS)

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


def build(shop: Workshop) -> Path:
    """Return a folder with a complete `bin` folder."""
    shop.say(f"fetching packages of Debian {SUITE}")
    tree = workshops.unpacked(shop, SUITE, PACKAGES, SOURCE_PACKAGE)
    shop.say(f"fetching packages of Debian {NEWER_SUITE}")
    newer = workshops.unpacked(shop, NEWER_SUITE, NEWER_PACKAGES)
    shop.say("unpacking the source")
    source = _unpacked_source(shop)
    _patch_source(source, tree)
    target = shop.folder / "done" / "bin"
    target.mkdir(parents=True)
    _compile(shop, source, tree / "usr" / "lib" / f"go-{GO}", target)
    shutil.copy2(tree / "usr/bin/etcd", target / "etcd")
    shutil.copy2(tree / "usr/bin/kubectl", target / "kubectl-1.20")
    shutil.copy2(newer / "usr/bin/kubectl", target / "kubectl-1.32")
    for binary in PROGRAMS:
        question = ["version", "--client"] if binary.startswith("kubectl") else ["--version"]
        shop.run([target / binary, *question], shop.folder, os.environ)
    return target.parent


def _unpacked_source(shop: Workshop) -> Path:
    """Unpack Kubernetes into a GOPATH. Debian's patches change only kubectl, which is not built here."""
    archives = [*workshops.fetched(shop, SUITE).glob(f"{SOURCE_PACKAGE}_*.orig.tar.*")]
    if not any(VERSION in archive.name for archive in archives):
        found = ", ".join(archive.name for archive in archives) or "nothing"
        raise WorkshopError(f"Debian's source package contains Kubernetes {found} instead of {VERSION}.")
    source = shop.folder / "gopath/src/k8s.io/kubernetes"
    source.mkdir(parents=True)
    shop.run(["tar", "-xf", archives[0], "-C", source, "--strip-components=1"], shop.folder, os.environ)
    return source


def _patch_source(source: Path, tree: Path) -> None:
    """Fix two errors of this source with newer compilers."""
    _replace_reflect2(source / "vendor" / REFLECT2, tree / "usr/share/gocode/src" / REFLECT2)
    _distinguish_empty_from_null(source)


def _replace_reflect2(vendored: Path, newer: Path) -> None:
    """Replace reflect2 1.0.1, which crashes with Go 1.18 and newer at the first custom resource, by 1.0.2."""
    for pattern in ("*.go", "*.s"):
        for old in vendored.glob(pattern):
            old.unlink()
        for new in newer.glob(pattern):
            shutil.copy(new, vendored)


def _distinguish_empty_from_null(source: Path) -> None:
    """Compare values instead of reflect.Values: with Go 1.19, "" in a custom resource is taken for null."""
    compared = "data == nil || reflect.DeepEqual(reflect.Zero(reflect.TypeOf(data)), reflect.ValueOf(data))"
    patched = 0
    for path in (source / "vendor").glob("**/validate/type.go"):
        text = path.read_text()
        if compared in text:
            path.write_text(text.replace(compared, "data == nil"))
            patched += 1
    if not patched:
        raise WorkshopError(
            "Cannot patch the check of custom resources: the source differs from the expected one."
        )


def _compile(shop: Workshop, source: Path, goroot: Path, target: Path) -> None:
    """Do what `make` does in that tree; of the generated files only the OpenAPI part is missing."""
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
    shop.say(f"compiling {', '.join(BUILT)} (takes most of the time)")
    commands = [f"./cmd/{name}" for name in BUILT]
    shop.run([compiler, "build", "-o", f"{target}/", "-ldflags", _link_flags(), *commands], source, go)


def _openapi_arguments(source: Path, report: Path) -> list[str | Path]:
    marked = re.compile(rb"^// *\+k8s:openapi-gen=", re.MULTILINE)
    others = {"code-generator", "sample-apiserver"}  # examples with definitions of their own
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
