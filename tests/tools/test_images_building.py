"""The cache of images: rebuilds, removals, and interrupted builds."""

import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
from pathlib import Path

import pytest
from tests.tools.lifeline import Lifeline

from images import archives, building, catalogue, checkout, making
from workshops import Workshop, WorkshopError

TOOLS = Path(building.__file__).parents[1]
PROJECT = '[project]\nname = "windlass"\nversion = "1.2"\ndependencies = ["click>=8", "pyyaml"]\n'
CONTROLLER = "windlass:1.2"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that a test may change."""
    root = tmp_path / "checkout"
    files = {
        "pyproject.toml": PROJECT,
        "README.md": "",
        "LICENSE": "",
        checkout.IMAGE_LOCK: "click==8\n",
        checkout.HUB_LOCK: "",
        "src/windlass/__init__.py": "old = True",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    read = checkout.read
    monkeypatch.setattr(checkout, "read", lambda: read(root))
    return root


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the layers built by a fake builder."""
    names: list[str] = []

    def make(shop: Workshop, layer: catalogue.Layer, *paths: Path) -> None:
        names.append(layer.name)
        tree = shop.folder / layer.name
        tree.mkdir()
        (tree / "file").write_text(repr(layer))
        archives.write_layer(paths[-1], tree)

    monkeypatch.setattr(making, "debian", make)
    monkeypatch.setattr(making, "on_debian", make)
    return names


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "caches")}


def kept(environment: dict[str, str]) -> list[str]:
    """Return the files of the cache without their keys."""
    folder = Path(environment["XDG_CACHE_HOME"]) / "windlass/kubernetes/images"
    return sorted(path.name.rpartition("-")[0] or path.name for path in folder.iterdir())


def test_each_layer_is_built_once(sources: Path, made: list[str], environment: dict[str, str]) -> None:
    names = tuple(catalogue.images(checkout.read()))
    first = [building.ensure(name, environment) for name in names]
    assert made == [
        "debian",
        "busybox",
        "debian-openmpi",
        "dependencies",
        "windlass",
        "debian-nfs",
        "mtab",
        "hub",
        "tensorflow",
        "windlass-beside-tensorflow",
    ]
    assert [building.ensure(name, environment) for name in names] == first
    assert all(path.is_file() for path in first)
    assert len(made) == 10


def test_cache_is_outside_the_checkout(sources: Path, made: list[str], environment: dict[str, str]) -> None:
    path = building.ensure(catalogue.PAUSE.name, environment)
    assert path.parent == Path(environment["XDG_CACHE_HOME"]) / "windlass/kubernetes/images"


@pytest.mark.parametrize(
    ("file", "text", "made_again"),
    [
        ("src/windlass/__init__.py", "old = False", ["windlass"]),
        ("src/windlass/new/module.py", "", ["windlass"]),
        ("README.md", "# Windlass", ["windlass"]),
        ("pyproject.toml", PROJECT + "[tool.other]\n", ["windlass"]),
        ("pyproject.toml", PROJECT.replace("click>=8", "click>=9"), ["dependencies", "windlass"]),
        (checkout.IMAGE_LOCK, "click==8.1\n", ["dependencies", "windlass"]),
        ("src/windlass/__init__.py", "old = True", []),
        ("src/windlass/__pycache__/__init__.cpython-311.pyc", "", []),
        ("tests/test_it.py", "", []),
    ],
)
def test_only_changed_layers_are_rebuilt(
    file: str, text: str, made_again: list[str], sources: Path, made: list[str], environment: dict[str, str]
) -> None:
    before = building.ensure(CONTROLLER, environment)
    made.clear()
    (sources / file).parent.mkdir(parents=True, exist_ok=True)
    (sources / file).write_text(text)
    after = building.ensure(CONTROLLER, environment)
    assert made == made_again
    assert (after == before) == (made_again == [])
    assert kept(environment) == [
        "image-windlass-arm64",
        "layer-debian-arm64",
        "layer-dependencies-arm64",
        "layer-windlass-arm64",
        "lock",
        "log",
    ]


def test_new_version_replaces_the_old_one(
    sources: Path, made: list[str], environment: dict[str, str]
) -> None:
    before = building.ensure(CONTROLLER, environment)
    (sources / "pyproject.toml").write_text(PROJECT.replace("1.2", "1.3"))
    after = building.ensure("windlass:1.3", environment)
    assert after.exists()
    assert not before.exists()


@pytest.mark.parametrize("change", ["architecture", "recipe", "configuration", "tags"])
def test_key_contains_everything_that_determines_an_image(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, cache = catalogue.TEST, building.Cache(Path(), "arm64")
    before = cache.path(image)
    match change:
        case "architecture":
            cache = building.Cache(Path(), "amd64")
        case "recipe":
            monkeypatch.setattr(building, "RECIPE", building.RECIPE + 1)
        case "configuration":
            image = catalogue.Image(image.tags, image.layers, archives.Config((("PATH", "/bin"),)))
        case "tags":
            image = catalogue.Image((*image.tags, "windlass/test:2"), image.layers, image.config)
    assert cache.path(image) != before


def test_unknown_name_lists_the_known_ones(environment: dict[str, str]) -> None:
    with pytest.raises(
        WorkshopError,
        match=r"Unknown image windlass/nothing:1. Known images: windlass/pause:1, .*, windlass:",
    ):
        building.ensure("windlass/nothing:1", environment)


def test_missing_mmdebstrap_is_reported_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    shop = Workshop(tmp_path, tmp_path / "log", 0.0)
    with pytest.raises(WorkshopError, match="apt-get install --no-install-recommends mmdebstrap"):
        making.debian(shop, catalogue.DEBIAN, tmp_path / "debian.tar")


def test_link_is_relative_to_the_container(tmp_path: Path) -> None:
    """On this machine it may lead to a file that must not get into the image."""
    shop = Workshop(tmp_path, tmp_path / "log", 0.0)
    layer = catalogue.Link("mtab", "etc/mtab", "/proc/self/mounts")
    making.on_debian(shop, layer, tmp_path / "no-root.tar", tmp_path / "layer.tar")
    with tarfile.open(tmp_path / "layer.tar") as made:
        found = {member.name: member.linkname for member in made if member.issym()}
    assert found == {"etc/mtab": "/proc/self/mounts"}


def test_failed_build_keeps_only_finished_layers(
    sources: Path, made: list[str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(shop: Workshop, layer: catalogue.Layer, _root: Path, target: Path) -> None:
        target.write_text("half of it")
        shop.run(["/bin/sh", "-c", "echo it is broken >&2; exit 7"], shop.folder, {})

    monkeypatch.setattr(making, "on_debian", fail)
    with pytest.raises(WorkshopError, match=r"(?s)exit code 7.*it is broken"):
        building.ensure(CONTROLLER, environment)
    assert kept(environment) == ["layer-debian-arm64", "lock", "log"]


def test_killed_build_leaves_nothing_that_counts_as_built(
    sources: Path, made: list[str], environment: dict[str, str], lifeline: Lifeline
) -> None:
    script = textwrap.dedent(f"""
        import platform, signal, sys
        from pathlib import Path
        sys.path.insert(0, {str(TOOLS)!r})
        from images import building, making
        def make(shop, layer, target):
            target.write_text("half of it")
            Path({str(lifeline.path)!r}).write_text("started\\n")
            signal.pause()
        making.debian = make
        platform.machine = lambda: "aarch64"
        building.ensure("windlass/test:1", {environment!r})
    """)
    process = subprocess.Popen([sys.executable, "-c", script])  # noqa: S603
    try:
        lifeline.wait_for_start()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(kept(environment)) == 3
    assert kept(environment)[:2] == ["lock", "log"]
    building.ensure("windlass/test:1", environment)
    assert made == ["debian"]
    assert kept(environment) == ["image-windlass-test-arm64", "layer-debian-arm64", "lock", "log"]


def test_concurrent_builds_build_once(
    sources: Path,
    made: list[str],
    environment: dict[str, str],
    second_waits: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make = making.debian

    def wait_and_make(shop: Workshop, layer: catalogue.DebianRoot, target: Path) -> None:
        assert second_waits.wait(60)
        make(shop, layer, target)

    monkeypatch.setattr(making, "debian", wait_and_make)
    threads = [
        threading.Thread(target=building.ensure, args=("windlass/test:1", environment)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["debian"]
    assert "Another process is building the images" in capsys.readouterr().err


@pytest.fixture(autouse=True)
def _one_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
