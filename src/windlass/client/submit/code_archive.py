"""Pack the code of a job, a folder or a file, into a reproducible archive.

Files are excluded by `ALWAYS_EXCLUDED` and by `.windlassignore`, or else `.gitignore`, in the folder itself.
"""

import io
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pathspec

from windlass.client.errors import ClientError, InvalidJobError
from windlass.render.code import PART_BYTES

MAX_BYTES = 10 * 1024 * 1024
"""Maximum size of the archive, which several ConfigMaps hold."""
MAX_UNPACKED_BYTES = 100 * 1024 * 1024
"""Maximum size of the files, which every task unpacks. A large sparse file is small when compressed."""
MAX_FILES = 20_000
"""Maximum number of files and folders. A folder with more is probably a mistake."""
IGNORE_FILES = (".windlassignore", ".gitignore")
"""Files with patterns of files to exclude. The first one that exists is used."""
ALWAYS_EXCLUDED = (
    ".git",
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "venv/",
    ".tox/",
    ".nox/",
    "node_modules/",
    ".ipynb_checkpoints/",
    ".windlass*",
)
"""Patterns of files that are always excluded."""

_MAX_SHOWN_FILES = 3
_GZIP = 31
"""zlib's `wbits` for the largest window with a gzip header, which holds neither a time nor a name."""
_ENVIRONMENT_FILES = ("pyvenv.cfg", "conda-meta")
"""Entries of a folder that is a virtual environment, whatever its name."""
_VOLUME_HINT = "put large files into a volume (`volumes:` of the job file; `windlass upload` fills one)"


class Limit(msgspec.Struct, frozen=True):
    """The maximum size of an archive, and what to do with a larger one."""

    max_bytes: int = MAX_BYTES
    advice: str = (
        "put data into a volume (`windlass upload ./data pvc://my-data`, and `volumes: {data: {pvc: my-data, at: "
        "/data}}` in the job file), or the code into an image (a Dockerfile with `FROM python:3` and `COPY . /app`, "
        "`docker build -t REGISTRY/NAME .`, `docker push REGISTRY/NAME`, and `image: REGISTRY/NAME` instead of `code` "
        "in the job file)"
    )


CODE_LIMIT = Limit()
FOLDER_LIMIT = Limit(PART_BYTES, _VOLUME_HINT)
"""The limit of a folder of `loadData`, which one ConfigMap holds."""


class Archive(msgspec.Struct, frozen=True):
    data: bytes
    """A tar file, compressed with gzip."""
    files: int
    size: int
    """Total size of the files in bytes."""

    def __str__(self) -> str:
        number = "1 file" if self.files == 1 else f"{self.files} files"
        return f"{number}, {format_size(len(self.data))} compressed"


class _Entry(msgspec.Struct, frozen=True):
    name: str
    """Relative path in the archive, with slashes. The name of a folder ends with a slash."""
    path: Path
    size: int = 0
    """Size of a file. 0 for a folder or a link."""


class _TooLargeError(Exception):
    """The files or the archive exceed a size limit. The message is the limit."""


def pack(code: Path, limit: Limit = CODE_LIMIT) -> Archive:
    """Pack a folder or a file. Raises InvalidJobError if no file remains or an ignore pattern is invalid, and
    ClientError if the code cannot be read or packed."""
    try:
        entries = _entries(code)
        files = [entry for entry in entries if not entry.name.endswith("/")]
        if not files:
            raise InvalidJobError(f"code: {code} has no files, or {_ignore_file(code)} excludes all of them")
        size = sum(entry.size for entry in files)
        if size > MAX_UNPACKED_BYTES:
            raise _TooLargeError(format_size(MAX_UNPACKED_BYTES))
        return Archive(_archived(entries, limit.max_bytes), len(files), size)
    except OSError as error:
        raise ClientError(
            f"code: cannot read {error.filename or code}: {error.strerror or error}. "
            f"Change its permissions, or exclude it in {code / IGNORE_FILES[0]}."
        ) from error
    except _TooLargeError as error:
        raise ClientError(
            f"code: {code} is larger than {error}. The largest files: {_largest(entries)}. "
            f"Exclude files that tasks do not need (in {code / IGNORE_FILES[0]}), or {limit.advice}."
        ) from error


def file_names(code: Path) -> frozenset[str]:
    """Return the names of the files that `pack` would pack. Raises the same errors, except for the size."""
    return frozenset(entry.name for entry in _entries(code) if not entry.name.endswith("/"))


def format_size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


# Files


def _entries(code: Path) -> list[_Entry]:
    if not code.is_dir():
        if code.exists() and not code.is_file():
            raise InvalidJobError(
                f"code: {code} is a device, a pipe or a socket, expected a folder or a file"
            )
        return [_Entry(code.name, code, code.stat().st_size)]
    found: list[_Entry] = []
    for entry in _walk(code.resolve(), "", _ignore_spec(code)):
        found.append(entry)
        if len(found) > MAX_FILES:
            raise ClientError(
                f"code: there are more than {MAX_FILES} files in {code}. "
                f"Exclude files that tasks do not need (in {code / IGNORE_FILES[0]}), or {_VOLUME_HINT}."
            )
    return found


def _ignore_spec(folder: Path) -> pathspec.GitIgnoreSpec:
    """Return the patterns of excluded names. The name of a folder ends with a slash."""
    file = _ignore_file(folder)
    lines = file.read_text("utf-8", "surrogateescape").splitlines() if file.is_file() else ()
    try:
        return pathspec.GitIgnoreSpec.from_lines([*lines, *ALWAYS_EXCLUDED])  # the last match decides
    except ValueError as error:
        raise InvalidJobError(f"{file}: invalid pattern: {error}") from error


def _ignore_file(folder: Path) -> Path:
    return next(
        (folder / name for name in IGNORE_FILES if (folder / name).is_file()), folder / IGNORE_FILES[0]
    )


def _walk(root: Path, folder: str, ignored: pathspec.GitIgnoreSpec) -> Iterator[_Entry]:
    """Yield the entries of a folder in the order of names. Like git, do not enter an ignored folder.

    `folder` is relative to `root`: empty, or with a slash at the end.
    """
    for path in sorted((root / folder).iterdir()):
        if path.is_dir() and any((path / name).exists() for name in _ENVIRONMENT_FILES):
            continue
        name = f"{folder}{path.name}"
        is_link = path.is_symlink()
        if path.is_dir() and not is_link:
            name += "/"
        if ignored.match_file(name):
            continue
        if is_link:
            yield _link(root, name, path)
        elif path.is_dir():
            yield _Entry(name, path)
            yield from _walk(root, name, ignored)
        elif path.is_file():
            yield _Entry(name, path, path.stat().st_size)


def _link(root: Path, name: str, path: Path) -> _Entry:
    """Return the entry of a link. Raises ClientError if its target is outside the folder."""
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(root):
        raise ClientError(
            f"code: {path} is a link to {target}, which is outside {root} and is not packed. "
            f"Replace it with a copy, or exclude it in {root / IGNORE_FILES[0]}."
        )
    return _Entry(name, path)


def _largest(entries: Sequence[_Entry]) -> str:
    by_size = sorted(entries, key=lambda entry: -entry.size)[:_MAX_SHOWN_FILES]
    return ", ".join(f"{entry.name} ({format_size(entry.size)})" for entry in by_size)


# Archive


class _Sink(io.RawIOBase):
    """Compresses written data up to the size limit."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._compressor = zlib.compressobj(9, wbits=_GZIP)
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._append(self._compressor.compress(data))
        return len(data)

    def finished(self) -> bytes:
        self._append(self._compressor.flush())
        return bytes(self._written)

    def _append(self, compressed: bytes) -> None:
        self._written += compressed
        if len(self._written) > self._max_bytes:
            raise _TooLargeError(f"{format_size(self._max_bytes)} when compressed")


def _archived(entries: Sequence[_Entry], max_bytes: int) -> bytes:
    sink = _Sink(max_bytes)
    # The old GNU format, which the tar of busybox can read.
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        for entry in entries:
            _add(archive, entry)
    return sink.finished()


def _add(archive: tarfile.TarFile, entry: _Entry) -> None:
    """Add an entry without time and owner, so that archives are reproducible."""
    info = tarfile.TarInfo(entry.name.rstrip("/"))
    mode = stat.S_IMODE(entry.path.lstat().st_mode)
    if entry.path.is_symlink():
        info.type, info.mode = tarfile.SYMTYPE, 0o777
        # A link that leaves the folder and enters it again would be broken in a task.
        info.linkname = os.path.relpath(os.path.realpath(entry.path), entry.path.parent)
        archive.addfile(info)
    elif entry.name.endswith("/"):
        # The folder must be writable for unpacking.
        info.type, info.mode = tarfile.DIRTYPE, mode | stat.S_IRWXU
        archive.addfile(info)
    else:
        with entry.path.open("rb") as stream:
            info.mode, info.size = mode, os.fstat(stream.fileno()).st_size
            archive.addfile(info, stream)
