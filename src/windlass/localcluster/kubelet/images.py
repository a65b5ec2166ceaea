"""Local images: image names bound to directories.

The root of a container with a local image contains the files of the machine and those of the image's directory,
which take precedence.

The bindings are in one file, which other processes may change: it is read again when it has changed, and replaced
atomically.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from windlass.localcluster import private_files
from windlass.localcluster.kubelet.containers import errors
from windlass.localcluster.kubelet.containers.errors import SetupError

_HUB = "docker.io"
_HUB_NAMES = (_HUB, "index.docker.io")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    r"(?:(?P<domain>localhost(?::\d+)?|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?|[A-Za-z0-9-]+:\d+)/)?"
    rf"(?P<path>{_PART}(?:/{_PART})*)"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(?P<digest>@[a-z0-9]+:[0-9a-fA-F]{32,})?"
)

_decode = msgspec.json.Decoder(dict[str, str]).decode


def normalised(name: str) -> str:
    """Return the full name: `ubuntu` is `docker.io/library/ubuntu:latest`. Raise ValueError for an invalid name."""
    found = _REFERENCE.fullmatch(name)
    if found is None:
        raise ValueError(f'"{name}" is not a valid image name. Example: tensorflow/tensorflow:2.21.0')
    domain, path, tag, digest = (found[group] or "" for group in ("domain", "path", "tag", "digest"))
    if domain in ("", *_HUB_NAMES):
        domain, path = _HUB, path if "/" in path else f"library/{path}"
    return f"{domain}/{path}{tag or ('' if digest else ':latest')}{digest}"


FILE = "images.json"
"""Name of the file with the bindings, in the data directory."""


class Images:
    """The bindings in a file. If it is unreadable, `folder_of` raises SetupError, other methods ValueError."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_stamp: tuple[int, ...] = ()
        self._folders: dict[str, str] = {}

    def all(self) -> dict[str, str]:
        """Return every name, as it was added, and its directory."""
        stamp = self._stamp()
        if stamp != self._read_stamp:
            self._folders = self._read() if stamp else {}
            self._read_stamp = stamp
        return dict(self._folders)

    def add(self, name: str, folder: str | Path) -> None:
        """Bind a name to a directory. An earlier binding of the name is replaced."""
        key, path = normalised(name), Path(folder)
        if not path.is_absolute():
            raise ValueError(f'the directory of image "{name}" must be an absolute path, not "{folder}"')
        if not path.is_dir():
            problem = "is not a directory" if path.exists() else "does not exist"
            raise ValueError(f'cannot add image "{name}": {folder} {problem}')
        self._change(lambda known: {**_without(known, key), name: str(path)})

    def remove(self, name: str) -> None:
        key = normalised(name)

        def removed(known: dict[str, str]) -> dict[str, str]:
            kept = _without(known, key)
            if len(kept) == len(known):
                raise ValueError(f'no local image "{name}". Known images: {", ".join(known) or "none"}')
            return kept

        self._change(removed)

    def folder_of(self, image: str) -> str:
        """Return the directory of a local image, empty for other images. Raise SetupError if the directory is gone."""
        try:
            key = normalised(image)
        except ValueError:
            # An invalid name cannot be the name of a local image.
            return ""
        try:
            known = self.all()
        except ValueError as error:
            raise SetupError(str(error), errors.CREATE_ERROR) from error
        folder = next((folder for name, folder in known.items() if normalised(name) == key), "")
        if folder and not Path(folder).is_dir():
            message = (
                f'the directory of local image "{image}" does not exist: {folder}. Restore it, or choose another one'
                f" with `windlass local image add {image} DIR`."
            )
            raise SetupError(message, errors.CREATE_ERROR)
        return folder

    def _change(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        private_files.make_folder(self._file.parent)
        with _locked(self._file.parent):
            after = dict(sorted(change(self.all()).items()))
            private_files.write(self._file, msgspec.json.format(msgspec.json.encode(after)) + b"\n")

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> dict[str, str]:
        try:
            found = _decode(self._file.read_bytes())
            for name in found:
                normalised(name)
            return found
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, ValueError, OSError) as error:
            raise ValueError(f"cannot read local images from {self._file}: {error}") from error


def _without(known: dict[str, str], key: str) -> dict[str, str]:
    return {name: folder for name, folder in known.items() if normalised(name) != key}


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Serialize changes by several processes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
