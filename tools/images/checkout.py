"""The files of this checkout that the Windlass package is built from. They are read once, so that the hashed content is
the built one."""

import dataclasses
import hashlib
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = "pyproject.toml"
IMAGE_LOCK: Final = "requirements/image.txt"
HUB_LOCK: Final = "docker/hub/requirements.txt"
BESIDE: Final = (PROJECT, "README.md", "LICENSE")
SOURCE: Final = "src/windlass"


@dataclasses.dataclass(frozen=True)
class Checkout:
    files: tuple[tuple[str, bytes], ...]
    """The files by path, sorted."""

    @property
    def version(self) -> str:
        return str(self._project["version"])

    @property
    def dependencies(self) -> tuple[str, ...]:
        return tuple(self._project["dependencies"])

    def text(self, path: str) -> str:
        return dict(self.files)[path].decode()

    @property
    def digest(self) -> str:
        """Return a hash of all files."""
        return hashlib.sha256(repr(self.files).encode()).hexdigest()[:12]

    @property
    def _project(self) -> dict[str, Any]:
        project: dict[str, Any] = tomllib.loads(self.text(PROJECT))["project"]
        return project

    def copy_into(self, folder: Path) -> None:
        for name, content in self.files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def read(root: Path = ROOT) -> Checkout:
    source = (
        path for path in (root / SOURCE).rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    paths = sorted([*(root / name for name in (*BESIDE, IMAGE_LOCK, HUB_LOCK)), *source])
    return Checkout(tuple((path.relative_to(root).as_posix(), path.read_bytes()) for path in paths))
