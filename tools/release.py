"""Build everything that is published for a release into dist/, and try it.

    python tools/release.py                 all of it
    python tools/release.py --only-build    without trying the wheel on each installed Python

dist/ gets the source distribution and the wheel with the dashboard, the Helm chart, manual pages with completion
scripts, software bills of materials, and SHA256SUMS. The wheel is installed with its dependencies into a new
environment of each Python from 3.11 on that this machine has, where it runs a job.
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import man_pages  # next to this file
import sbom
from windlass import __version__

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
ENVIRONMENT: Final = ROOT / ".venv-release"
REQUIRED: Final = ("build", "twine", "cyclonedx-python-lib[json-validation]")
PAGE: Final = "windlass/web/static/index.html"
MINORS: Final = range(11, 15)
"""The minor versions of Python 3 that are tried."""
TASK: Final = "import os; print('result', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"
SCRIPT: Final = """
from importlib import resources
from windlass import Client, Job

assert Client and Job(name="digits", roles={}).name == "digits"
assert resources.files("windlass.web").joinpath("static/index.html").is_file()
"""
TIMEOUT_SECONDS: Final = 1800


class ReleaseError(Exception):
    """Something must be fixed before the release."""


def release(*, is_tried: bool) -> None:
    check_versions()
    if not (ROOT / "src" / PAGE).exists():
        raise ReleaseError("the dashboard is not built: run make ui")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(_time_of_commit())}
    python = _tools()
    run([python, "-m", "build", "--outdir", DIST, ROOT], environment)
    wheel, source = (next(DIST.glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    run([python, "-m", "twine", "check", "--strict", wheel, source])
    check_contents(wheel, source)
    write_archives(int(environment["SOURCE_DATE_EPOCH"]))
    for file in sbom.write(DIST):
        run([python, "-c", VALIDATION, file])
    if is_tried:
        try_on_each_python(wheel)
    sums = (
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(DIST.iterdir())
    )
    (DIST / "SHA256SUMS").write_text("".join(sums))
    print(f"dist/ is complete: {', '.join(sorted(path.name for path in DIST.iterdir()))}")


VALIDATION: Final = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(f"{sys.argv[1]}: {found}" if found else 0)
"""


def check_versions(root: Path = ROOT, version: str = __version__) -> None:
    """Raise ReleaseError unless pyproject.toml and the newest entry of the changelog have this version."""
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if declared != version:
        raise ReleaseError(f"pyproject.toml has version {declared}, windlass.__version__ is {version}")
    found = re.search(
        r"^## \[(?!Unreleased)(.+)\] - \d{4}-\d{2}-\d{2}$", (root / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    if found is None or found[1] != version:
        raise ReleaseError(
            f"the newest release in CHANGELOG.md is {found[1] if found else 'missing'}, not {version}"
        )


def check_contents(wheel: Path, source: Path) -> None:
    """Raise ReleaseError if a file is missing or should not be published."""
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    with tarfile.open(source) as tar:
        in_source = {name.partition("/")[2] for name in tar.getnames()}
    needed = {PAGE, "windlass/py.typed", "windlass/jobfile/job.schema.json"}
    missing = needed - packed | {f"src/{name}" for name in needed} - in_source
    foreign = {
        name for name in packed if not name.startswith(("windlass/", f"windlass-{__version__}.dist-info/"))
    }
    foreign |= {name for name in packed | in_source if "__pycache__" in name or "node_modules" in name}
    if missing or foreign:
        raise ReleaseError(f"the archives lack {sorted(missing)} and should not have {sorted(foreign)}")


# Other archives


def write_archives(time: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        man_pages.write(Path(folder))
        files = {str(path.relative_to(folder)): path for path in Path(folder).rglob("*") if path.is_file()}
        write_archive(DIST / f"windlass-{__version__}-man-and-completions.tar.gz", files, time)
    write_archive(DIST / chart_name(), chart_files(), time)


def chart_name() -> str:
    chart = (ROOT / "charts" / "windlass" / "Chart.yaml").read_text()
    return f"windlass-chart-{re.search(r'^version: (.*)$', chart, re.MULTILINE)[1]}.tgz"  # type: ignore[index]


def chart_files() -> dict[str, Path]:
    """Return the files of a packaged chart: those of `helm package`."""
    folder = ROOT / "charts" / "windlass"
    ignored = (folder / ".helmignore").read_text().split()
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {f"windlass/{name}": path for name, path in paths.items() if name not in (*ignored, ".helmignore")}


def write_archive(target: Path, files: Mapping[str, Path], time: int) -> None:
    """Write an archive that depends only on its files and the time."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            content = path.read_bytes()
            entry.size, entry.mtime = len(content), time
            tar.addfile(entry, io.BytesIO(content))


# Trying the wheel


def try_on_each_python(wheel: Path) -> None:
    found = pythons(os.environ)
    for minor in MINORS:
        if not any(version.startswith(f"3.{minor}.") for version in found):
            print(f"Python 3.{minor}: not installed here, not tried")
    for version, python in found.items():
        with tempfile.TemporaryDirectory(prefix="windlass-release-") as folder:
            try_wheel(python, wheel, Path(folder))
        print(f"Python {version}: the wheel works")


def pythons(environment: Mapping[str, str]) -> dict[str, Path]:
    """Return the interpreters on PATH, of pyenv and of PYTHONS (paths separated by colons), by their full version."""
    pyenv = Path(environment.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    folders = [*map(Path, environment.get("PATH", "").split(":")), *sorted(pyenv.glob("*/bin"))]
    named = [Path(path) for path in environment.get("PYTHONS", "").split(":") if path]
    candidates = [*named, *(folder / f"python3.{minor}" for folder in folders for minor in MINORS)]
    question = "import sys; print('%d.%d.%d' % sys.version_info[:3], sys.prefix == sys.base_prefix)"
    found: dict[str, Path] = {}
    for path in candidates:
        if os.access(path, os.X_OK):
            # A shim of pyenv fails if its version is not selected.
            done = subprocess.run([path, "-c", question], capture_output=True, text=True, check=False)  # noqa: S603
            version, _, is_real = done.stdout.strip().partition(" ")
            if done.returncode == 0 and is_real == "True":
                found.setdefault(version, path)
    return dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


def try_wheel(python: Path, wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment, and use it there without the checkout."""
    run([python, "-m", "venv", folder / "venv"])
    own = folder / "venv" / "bin"
    run([own / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel])
    run([own / "python", "-m", "pip", "check"])
    home = folder / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": f"{own}:{os.environ['PATH']}", "LANG": "C.UTF-8"}

    def windlass(*words: str) -> str:
        return run([own / "windlass", *words], environment, home)

    if windlass("--version") != f"windlass, version {__version__}\n":
        raise ReleaseError(f"windlass --version printed {windlass('--version')}")
    lines = windlass("run", "--workers", "2", "--runtime", "pytorch", "--logs", "--", "python3", "-c", TASK)
    if not all(f"result {rank} of 2" in lines for rank in range(2)):
        raise ReleaseError(f"windlass run printed {lines}")
    (home / "train.py").write_text(TASK)
    windlass("init", "--name", "digits", "--workers", "2", "--yes", "train.py")
    windlass("lint", "job.yaml")
    windlass("render", "job.yaml")
    if "CustomResourceDefinition" not in windlass("install"):
        raise ReleaseError("windlass install printed no definitions")
    run([own / "python", "-c", SCRIPT], environment, home)


# Processes


def _tools() -> Path:
    """Return the Python of the environment with the release tools, after creating it."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "installed").exists():
        run([sys.executable, "-m", "venv", ENVIRONMENT])
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIRED])
        (ENVIRONMENT / "installed").touch()
    return python


def _time_of_commit() -> int:
    return int(run(["git", "log", "-1", "--format=%ct"], folder=ROOT))


def run(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, folder: Path = ROOT
) -> str:
    """Run a command and return its output. Raise ReleaseError if it fails."""
    done = subprocess.run(  # noqa: S603
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise ReleaseError(f"{words} failed with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only-build", action="store_true", help="do not try the wheel")
    try:
        release(is_tried=not parser.parse_args(arguments and list(arguments)).only_build)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
