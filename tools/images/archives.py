"""Write the files of an image: layers from folders, and the archive for `docker load` and `ctr images import`.

The same content always gives the same bytes: names are sorted, times are zero, and root owns everything.
"""

import dataclasses
import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

Json = dict[str, object]


@dataclasses.dataclass(frozen=True)
class Config:
    """The defaults of a container of the image."""

    environment: tuple[tuple[str, str], ...]
    entry_point: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    ports: tuple[str, ...] = ()
    folder: str = ""
    """Working directory."""

    def as_json(self) -> Json:
        fields: Json = {
            "Env": [f"{name}={value}" for name, value in self.environment],
            "Entrypoint": list(self.entry_point),
            "Cmd": list(self.command),
            "User": self.user,
            "WorkingDir": self.folder,
            "ExposedPorts": {port: {} for port in self.ports},
        }
        return {name: value for name, value in fields.items() if value}


def write(path: Path, tags: Sequence[str], layers: Sequence[Path], config: Config, architecture: str) -> None:
    """Write one image under all tags, the lowest layer first."""
    digests = [_digest(layer) for layer in layers]
    description = _bytes(
        {
            "architecture": architecture,
            "os": "linux",
            "config": config.as_json(),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    )
    description_name = f"{hashlib.sha256(description).hexdigest()}.json"
    names = [f"{digest}.tar" for digest in digests]
    manifest = {"Config": description_name, "RepoTags": [full_name(tag) for tag in tags], "Layers": names}
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, layer in zip(names, layers, strict=True):
            with layer.open("rb") as content:
                archive.addfile(_member(name, layer.stat().st_size), content)
        for name, text in ((description_name, description), ("manifest.json", _bytes([manifest]))):
            archive.addfile(_member(name, len(text)), io.BytesIO(text))


def full_name(tag: str) -> str:
    """Return the name that a kubelet uses: names without a registry belong to docker.io."""
    return f"docker.io/{tag}" if "/" in tag else f"docker.io/library/{tag}"


def write_layer(path: Path, tree: Path) -> None:
    """Write a layer with the files of a folder, relative to the root folder of a container."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as layer:
        for file in sorted(tree.rglob("*")):
            member = layer.gettarinfo(file, arcname=str(file.relative_to(tree)))
            member.mtime, member.uid, member.gid, member.uname, member.gname = 0, 0, 0, "", ""
            # Any user of a container may read the files, whatever the umask of the builder.
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            if not member.isfile():
                layer.addfile(member)
                continue
            with file.open("rb") as content:
                layer.addfile(member, content)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
