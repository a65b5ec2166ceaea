"""The archive of an image: the checks of Docker and containerd, and reproducible bytes."""

import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from images import archives

CONFIG = archives.Config(
    (("PATH", "/bin"), ("A", "b=c")),
    entry_point=("windlass",),
    command=("controller",),
    user="65532:65532",
    ports=("8080/tcp",),
)


def fill(tree: Path, names: list[str]) -> Path:
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(f"this is {name}")
    return tree


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "lower.tar", tmp_path / "upper.tar"]
    for path in made:
        archives.write_layer(path, fill(tmp_path / path.stem, [f"etc/{path.stem}", "etc/both"]))
    return made


def read(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def described(archive: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, bytes]]:
    """Return the manifest of the only image, its configuration, and all files."""
    files = read(archive)
    [manifest] = json.loads(files["manifest.json"])
    return manifest, json.loads(files[manifest["Config"]]), files


def test_blobs_are_named_by_their_digest(tmp_path: Path, layers: list[Path]) -> None:
    archives.write(tmp_path / "image.tar", ["windlass:1"], layers, CONFIG, "arm64")
    manifest, config, files = described(tmp_path / "image.tar")
    assert manifest["Config"] == hashlib.sha256(files[manifest["Config"]]).hexdigest() + ".json"
    assert [files[name] for name in manifest["Layers"]] == [layer.read_bytes() for layer in layers]
    digests = [hashlib.sha256(layer.read_bytes()).hexdigest() for layer in layers]
    assert config["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]}
    assert manifest["Layers"] == [f"{digest}.tar" for digest in digests]
    assert set(files) == {"manifest.json", manifest["Config"], *manifest["Layers"]}


def test_configuration_contains_the_defaults_of_a_container(tmp_path: Path, layers: list[Path]) -> None:
    archives.write(tmp_path / "image.tar", ["windlass:1"], layers, CONFIG, "arm64")
    _, config, _ = described(tmp_path / "image.tar")
    assert (config["architecture"], config["os"]) == ("arm64", "linux")
    assert config["config"] == {
        "Env": ["PATH=/bin", "A=b=c"],
        "Entrypoint": ["windlass"],
        "Cmd": ["controller"],
        "User": "65532:65532",
        "ExposedPorts": {"8080/tcp": {}},
    }


def test_unset_fields_are_omitted() -> None:
    assert archives.Config((("PATH", "/bin"),)).as_json() == {"Env": ["PATH=/bin"]}


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("windlass:0.1", "docker.io/library/windlass:0.1"),
        ("windlass/test:1", "docker.io/windlass/test:1"),
    ],
)
def test_image_has_the_name_that_a_kubelet_uses(tag: str, name: str) -> None:
    assert archives.full_name(tag) == name


def test_archive_with_several_tags(tmp_path: Path, layers: list[Path]) -> None:
    archives.write(tmp_path / "image.tar", ["windlass/test:1", "windlass/test:2"], layers, CONFIG, "amd64")
    manifest, _, _ = described(tmp_path / "image.tar")
    assert manifest["RepoTags"] == ["docker.io/windlass/test:1", "docker.io/windlass/test:2"]


class TestLayer:
    def test_layer_contains_no_builder_and_time(self, tmp_path: Path) -> None:
        tree = fill(tmp_path / "tree", ["bin/program", "etc/file"])
        (tree / "bin/program").chmod(0o700)
        (tree / "etc/file").chmod(0o600)
        (tree / "bin/other").symlink_to("program")
        archives.write_layer(tmp_path / "layer.tar", tree)
        with tarfile.open(tmp_path / "layer.tar") as tar:
            found = [(member.name, oct(member.mode), member.linkname) for member in tar]
            marks = {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in tar}
        assert found == [
            ("bin", "0o755", ""),
            ("bin/other", "0o755", "program"),
            ("bin/program", "0o755", ""),
            ("etc", "0o755", ""),
            ("etc/file", "0o644", ""),
        ]
        assert marks == {(0, 0, 0, "", "")}

    def test_hard_links_are_stored_as_files(self, tmp_path: Path) -> None:
        tree = fill(tmp_path / "tree", ["first"])
        (tree / "second").hardlink_to(tree / "first")
        archives.write_layer(tmp_path / "layer.tar", tree)
        assert read(tmp_path / "layer.tar") == {"first": b"this is first", "second": b"this is first"}


def test_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    made: list[bytes] = []
    for attempt, names in enumerate((["a", "b/c"], ["b/c", "a"])):
        folder = tmp_path / str(attempt)
        tree = fill(folder / "tree", names)
        os.utime(tree / "a", (attempt, attempt))
        archives.write_layer(folder / "layer.tar", tree)
        archives.write(folder / "image.tar", ["windlass:1"], [folder / "layer.tar"], CONFIG, "arm64")
        os.utime(folder / "layer.tar", (attempt, attempt))
        made.append((folder / "image.tar").read_bytes())
    assert made[0] == made[1]
