"""A copy of Python and Windlass that every user may run.

Python and a clone of Windlass often lie below a home folder that other users may not enter. The copy lies in a folder
for temporary files. It consists of hard links where the file system allows them, and takes little time and space. It is
removed when the process that made it exits.
"""

import atexit
import contextlib
import functools
import importlib.metadata
import os
import shutil
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import windlass

# Large parts of the standard library that no test needs.
_OMITTED: Final = frozenset(
    {"site-packages", "dist-packages", "test", "idlelib", "ensurepip", "lib2to3", "tkinter", "turtledemo"}
    # What it takes to build a program that embeds Python.
    | {f"config-{sysconfig.get_config_var('LDVERSION')}-{sysconfig.get_config_var('MULTIARCH')}"}
)
_BESIDE_THE_PROGRAM: Final = b"$ORIGIN/../lib"


@functools.cache
def copied() -> Path:
    """Return the interpreter of a virtual environment that holds Windlass and its dependencies."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-python-", dir=_temporary_folder()))
    atexit.register(_remove, folder, os.getpid())
    folder.chmod(0o755)
    return _copy_environment(folder / "venv", _copy_python(folder / "base"))


def _temporary_folder() -> str:
    """Return one on the file system of Python if there is one: files are linked within a file system only."""
    preferred = tempfile.gettempdir()
    device = Path(sys.base_prefix).stat().st_dev
    found = (each for each in (preferred, "/var/tmp") if Path(each).is_dir())  # noqa: S108
    return next((each for each in found if Path(each).stat().st_dev == device), preferred)


def _remove(folder: Path, owner: int) -> None:
    # A forked child calls it too, but does not own the folder.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_python(folder: Path) -> Path:
    library = Path(sysconfig.get_path("stdlib"))
    _link_folder(library, folder / library.relative_to(sys.base_prefix), omitted=_OMITTED)
    program = Path(sys.executable).resolve()
    content = program.read_bytes()
    shared = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME"))
    has_shared_library = bool(sysconfig.get_config_var("Py_ENABLE_SHARED")) and shared.exists()
    if has_shared_library:
        content = _with_library_beside(content, os.fsencode(shared.parent))
        _link(shared, _new_folder(folder / "lib") / shared.name)
    return _write(_new_folder(folder / "bin") / program.name, content, 0o755)


def _with_library_beside(program: bytes, folder: bytes) -> bytes:
    """Return the program with a relative run path, so that it does not load the library from the original folder."""
    # The length of a string in the program is fixed. A folder as short as /usr/lib belongs to the system.
    if len(folder) < len(_BESIDE_THE_PROGRAM):
        return program
    return program.replace(folder + b"\0", _BESIDE_THE_PROGRAM.ljust(len(folder) + 1, b"\0"))


def _copy_environment(folder: Path, base: Path) -> Path:
    python = _new_folder(folder / "bin") / "python"
    python.symlink_to(base)
    _write(folder / "pyvenv.cfg", f"home = {base.parent}\n".encode(), 0o644)
    command = f"#!{python}\nimport sys\nfrom windlass.cli.main import main\nsys.exit(main())\n"
    _write(folder / "bin" / "windlass", command.encode(), 0o755)
    packages = _new_folder(Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)})))
    for source in {Path(windlass.__file__).parent, *_dependencies("windlass", set())}:
        link = _link_folder if source.is_dir() else _link
        link(source, packages / source.name)
    return python


def _dependencies(name: str, seen: set[str]) -> Iterator[Path]:
    """Return the modules and the metadata of a distribution and of all that it requires."""
    seen.add(canonicalize_name(name))
    distribution = importlib.metadata.distribution(name)
    folder = Path(str(distribution.locate_file("")))
    names = {file.parts[0] for file in distribution.files or ()}
    # A .pth file leads to the sources of an editable installation, and .. to programs.
    yield from (folder / each for each in names if each != ".." and not each.endswith(".pth"))
    for required in map(Requirement, distribution.requires or ()):
        is_needed = required.marker is None or required.marker.evaluate({"extra": ""})
        if is_needed and canonicalize_name(required.name) not in seen:
            yield from _dependencies(required.name, seen)


def _link_folder(source: Path, target: Path, *, omitted: Collection[str] = ()) -> None:
    _new_folder(target)
    for entry in os.scandir(source):
        # Bytecode of an optimized interpreter, which no test starts.
        if entry.name in omitted or ".opt-" in entry.name:
            continue
        link = _link_folder if entry.is_dir() else _link
        link(Path(entry.path), target / entry.name)


def _link(source: Path, target: Path) -> None:
    original = source.resolve() if source.is_symlink() else source
    mode = original.stat().st_mode
    # A link has the permissions of the original. Across file systems there are no links.
    if mode & stat.S_IROTH:
        with contextlib.suppress(OSError):
            os.link(original, target)
            return
    shutil.copy2(original, target)
    target.chmod(mode | 0o444)


def _new_folder(path: Path) -> Path:
    """Create a folder that every user may enter, whatever the umask is."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
        each.chmod(0o755)
    return path


def _write(path: Path, content: bytes, mode: int) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path
