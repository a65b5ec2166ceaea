"""Build things once and keep them: a cache outside the checkout, and a temporary folder per build.

Debian packages are only unpacked: apt works in its own folders with this machine's package sources, so that nothing is
installed and root is not required. Only the standard library is used, so that any Python 3.11 can run it.
"""

import contextlib
import dataclasses
import fcntl
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import debian_sources  # next to this file
import programs  # next to this file

ARCHITECTURES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
PROGRAMS_NEEDED: Final = ("apt-get", "apt-config", "dpkg-deb", "tar")


class WorkshopError(Exception):
    """The build failed. The message contains the cause."""


def cache_root(environment: Mapping[str, str]) -> Path:
    caches = environment.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path.home() / ".cache") / "windlass" / "kubernetes"


def architecture(machine: str) -> str:
    """Return the architecture as Debian and container images name it."""
    found = ARCHITECTURES.get(machine.lower())
    if found is None:
        known = ", ".join(sorted(set(ARCHITECTURES.values())))
        raise WorkshopError(f"Cannot build for this machine ({machine}); supported: {known}.")
    return found


# Builds


@dataclasses.dataclass(frozen=True)
class Workshop:
    """The folder of one build and its log. Only the log is kept."""

    folder: Path
    log: Path
    started: float

    def say(self, what: str) -> None:
        print(f"[{time.monotonic() - self.started:4.0f} s] {what}", file=sys.stderr, flush=True)

    def run(self, argv: Sequence[str | Path], cwd: Path, environment: Mapping[str, str]) -> None:
        """Run a command to its end. It is ended with this process, with its children."""
        with self.log.open("a") as log:
            print("$", *argv, file=log, flush=True)
            process = None
            try:
                with programs.signals_held():  # until the process to end is known
                    process = subprocess.Popen(  # noqa: S603
                        argv,
                        cwd=cwd,
                        env=dict(environment),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                code = process.wait()
            except BaseException:
                if process is not None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                raise
        if code != 0:
            raise WorkshopError(
                f"`{' '.join(map(str, argv))[:120]}` ended with exit code {code}. The last lines of {self.log}:\n"
                f"{programs.tail(self.log)}"
            )


def ensure(
    destination: Path, is_complete: Callable[[], bool], what: str, build: Callable[[Workshop], Path]
) -> None:
    """Build unless it is complete. `build` returns the folder that is then moved into place."""
    if is_complete():
        return
    _require_build_tools(what)
    with locked(destination.with_name(f"{destination.name}.lock"), what):
        if not is_complete():
            _build_into(destination, what, build)


@contextlib.contextmanager
def locked(file: Path, what: str) -> Iterator[None]:
    """Hold a lock. The kernel releases it when this process ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another process is building {what}; waiting for it.", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _require_build_tools(what: str) -> None:
    missing = [program for program in PROGRAMS_NEEDED if shutil.which(program) is None]
    if missing:
        raise WorkshopError(f"{what} is built from Debian's packages, which requires {', '.join(missing)}.")


def _build_into(destination: Path, what: str, build: Callable[[Workshop], Path]) -> None:
    root, key = destination.parent, destination.name
    for left_over in root.glob(f"{key}.work-*"):  # left by a killed builder: the lock is held
        shutil.rmtree(left_over, ignore_errors=True)
    log = root / f"{key}.log"
    log.write_text("")
    with tempfile.TemporaryDirectory(prefix=f"{key}.work-", dir=root) as name:
        shop = Workshop(Path(name), log, time.monotonic())
        shop.say(f"{what} is not in {destination}: building it, which takes minutes; log: {log}")
        built = build(shop)
        if destination.is_dir():
            shutil.rmtree(destination)
        built.rename(destination)
    shop.say(f"done: {destination}")


# Packages


def release_of_machine() -> str:
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    if system.get("ID") != "debian" or not system.get("VERSION_CODENAME"):
        found = system.get("PRETTY_NAME", platform.system())
        raise WorkshopError(f"It is built from Debian's packages, and this machine runs {found}.")
    return system["VERSION_CODENAME"]


def unpacked(shop: Workshop, suite: str, packages: Sequence[str], source: str = "") -> Path:
    """Unpack packages into a folder, with paths relative to the root folder.

    A source package is downloaded into the folder `fetched` and not unpacked.
    """
    apt = _apt(shop, suite)
    place = fetched(shop, suite)
    place.mkdir(parents=True)
    shop.run(["apt-get", "--quiet", "update"], place, apt)
    shop.run(["apt-get", "--quiet", "download", *packages], place, apt)
    if source:
        shop.run(["apt-get", "--quiet", "source", "--download-only", "--only-source", source], place, apt)
    tree = shop.folder / "trees" / suite
    tree.mkdir(parents=True)
    for package in place.glob("*.deb"):
        shop.run(["dpkg-deb", "--extract", package, tree], place, os.environ)
    return tree


def fetched(shop: Workshop, suite: str) -> Path:
    return shop.folder / "packages" / suite


def _apt(shop: Workshop, suite: str) -> dict[str, str]:
    """Return an environment in which apt-get knows the packages of that suite."""
    missing = [program for program in PROGRAMS_NEEDED if shutil.which(program) is None]
    if missing:
        raise WorkshopError(
            f"It is built from Debian's packages, and this machine has no {', '.join(missing)}."
        )
    folder = shop.folder / "apt" / suite
    for name in ("no-parts", "lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    write_sources(folder / "sources", suite)
    (folder / "apt.conf").write_text(debian_sources.apt_configuration(apt_settings(), folder))
    return {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C.UTF-8"}


def write_sources(folder: Path, suite: str) -> list[Path]:
    """Write the package sources of this machine for that suite."""
    try:
        known = debian_sources.of_machine(Path("/etc/apt"))
        files = debian_sources.for_release(known, release_of_machine(), suite)
    except debian_sources.SourcesError as error:
        raise WorkshopError(f"It is built from Debian's packages, but {error}.") from error
    folder.mkdir(parents=True)
    for file in files:
        (folder / file.name).write_text(file.text)
    return [folder / file.name for file in files]


def apt_settings() -> str:
    """Return this machine's apt settings, one per line."""
    command = ["apt-config", "dump"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
