"""The instructions of the Dockerfiles, executed without Docker, give the files of the images of `make images`.

Each stage gets a folder, which replaces `/` in its instructions. `python` and `pip` are those of an environment of this
Python, and `npm` is that of this machine.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import pytest

from images import building, catalogue, checkout

ROOT = Path(__file__).parents[2]
Instruction = tuple[str, str]
ABSOLUTE = re.compile(r"(?<![\w.$*/-])/(?=\w)")
"""The beginning of an absolute path."""
PAGE = "windlass/web/static"
LEFT_OUT = re.compile(
    r"""
      (^|/)__pycache__/
    | /bin/(python|pip|[Aa]ctivate)[^/]*$                      # differ between environments
    | /site-packages/(pip|setuptools|pkg_resources|_distutils_hack|distutils-precedence\.pth|wheel)\b
    | \.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json)$
    | /pyvenv\.cfg$ | /include/ | /lib64(/|$)
    """,
    re.VERBOSE,
)


def stages(dockerfile: Path) -> dict[str, list[Instruction]]:
    """Return the instructions of each stage. The name of the last one is `final`."""
    text = re.sub(r"(?m)^\s*#.*\n", "", dockerfile.read_text())
    found: dict[str, list[Instruction]] = {}
    for line in filter(None, re.sub(r"\\\n\s*", "", text).splitlines()):
        word, _, words = line.partition(" ")
        if word == "FROM":
            found[words.partition(" AS ")[2] or "final"] = []
        else:
            list(found.values())[-1].append((word, words))
    return found


def is_sent(path: str, rules: list[str]) -> bool:
    """Return whether Docker sends a file to the build: the last matching line of .dockerignore decides."""
    here = PurePosixPath(path)
    sent = True
    for rule in rules:
        pattern = rule.removeprefix("!")
        for each in (here, *list(here.parents)[:-1]):
            is_anywhere = pattern.startswith("**/")
            if each.match(pattern[3:]) if is_anywhere else fnmatchcase(str(each), pattern):
                sent = rule.startswith("!")
    return sent


def sent_files(folder: Path, rules: list[str], parents: str = "") -> Iterator[str]:
    for each in sorted((folder / parents).iterdir()):
        path = f"{parents}{each.name}"
        if is_sent(path, rules):
            yield from sent_files(folder, rules, f"{path}/") if each.is_dir() else [path]


class Build:
    """A build in a folder. The result is in `folder/final`."""

    def __init__(self, folder: Path, dockerfile: Path) -> None:
        self._folder = folder
        self._context = folder / "context"
        ignore = dockerfile.parent / ".dockerignore"
        rules = ignore.read_text().splitlines() if ignore.exists() else []
        rules = [rule for rule in rules if rule and not rule.startswith("#")]
        for path in sent_files(dockerfile.parent, rules):
            (self._context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(dockerfile.parent / path, self._context / path)
        subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True)  # noqa: S603
        for name, instructions in stages(dockerfile).items():
            self._execute(folder / name, instructions)

    def _execute(self, root: Path, instructions: list[Instruction]) -> None:
        root.mkdir()
        here = root
        for word, words in instructions:
            match word:
                case "WORKDIR":
                    here = root / words.lstrip("/")
                    here.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(root, here, words.split())
                case "RUN":
                    self._run(ABSOLUTE.sub(f"{root}/", words), here)
                case "ENV" | "USER" | "EXPOSE" | "ENTRYPOINT" | "CMD":
                    pass
                case _:
                    raise NotImplementedError(word)

    def _copy(self, root: Path, here: Path, words: list[str]) -> None:
        origin = self._context
        if words[0].startswith("--from="):
            origin = self._folder / words.pop(0).removeprefix("--from=")
        *sources, to = words
        target = root / to.lstrip("/") if to.startswith("/") else here / to
        for each in sources:
            source = origin / each.lstrip("/")
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            elif to.endswith("/"):
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)

    def _run(self, line: str, here: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment["PATH"] = f"{self._folder / 'python' / 'bin'}:{environment['PATH']}"
        environment["PIP_COMPILE"] = "0"  # bytecode is not compared
        done = subprocess.run(  # noqa: S603
            ["/bin/sh", "-ec", line], cwd=here, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def files(self) -> dict[str, bytes]:
        final = self._folder / "final"
        paths = (path for path in final.rglob("*") if path.is_file())
        return comparable({str(path.relative_to(final)): path.read_bytes() for path in paths})


def files_of_image(name: str) -> dict[str, bytes]:
    """Return the files of an image without those of Debian."""
    found: dict[str, bytes] = {}
    with tarfile.open(building.ensure(name)) as archive:
        manifest = json.loads(content_of(archive, "manifest.json"))
        for layer in manifest[0]["Layers"][1:]:
            with tarfile.open(fileobj=archive.extractfile(layer)) as files:
                found |= {each.name: content_of(files, each) for each in files if each.isfile()}
    return comparable(found)


def content_of(archive: tarfile.TarFile, member: str | tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def comparable(files: dict[str, bytes]) -> dict[str, bytes]:
    """Remove what depends on the version of Python and on the tool that made the environment."""
    kept = {path: content for path, content in files.items() if not LEFT_OUT.search(f"/{path}")}
    return {re.sub(r"(python|cpython-)3\.?\d+", r"\1", path): content for path, content in kept.items()}


def without_page(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: content for path, content in files.items() if PAGE not in path}


@pytest.mark.kubernetes  # builds the images: `make test-cluster`
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_dockerfile_of_the_controller_gives_the_files_of_its_image(tmp_path: Path) -> None:
    built = Build(tmp_path, ROOT / "Dockerfile").files()
    made = files_of_image(catalogue.controller(checkout.read()).name)
    assert without_page(built).keys() == without_page(made).keys()
    # Programs have the path of their Python, and compiled libraries fit it.
    different = {path for path in without_page(built).keys() & made.keys() if built[path] != made[path]}
    assert {path for path in different if not re.search(r"/bin/|\.so$|\.so\.", path)} == set()
    pages = {path for path in built if path.endswith(f"{PAGE}/index.html")}
    assert len(pages) == 1
    is_built = (ROOT / "src" / PAGE / "index.html").exists()
    assert pages <= made.keys() if is_built else not pages & made.keys()


@pytest.mark.kubernetes
def test_dockerfile_of_the_hub_gives_the_files_of_its_image(tmp_path: Path) -> None:
    built = Build(tmp_path, ROOT / "docker" / "hub" / "Dockerfile").files()
    assert built.keys() == files_of_image(catalogue.hub(checkout.read()).name).keys()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/windlass/cli/main.py", True),
        ("src/windlass/web/static/index.html", False),
        ("ui/node_modules/x/index.js", False),
        ("ui/src/main.ts", True),
        ("src/windlass/__pycache__/x.pyc", False),
        ("tests/conftest.py", False),
    ],
)
def test_docker_gets_the_files_of_the_build(path: str, expected: bool) -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert is_sent(path, rules) is expected
