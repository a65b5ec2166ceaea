"""The catalogue of images agrees with the Dockerfiles and the rendered objects."""

import re
import shlex
from pathlib import Path

import pytest

from images import building, catalogue, checkout
from windlass.install import options
from windlass.render.companions import hub
from windlass.render.storage import servers

ROOT = Path(__file__).parents[2]
CHECKOUT = checkout.read(ROOT)
CONTROLLER = catalogue.controller(CHECKOUT)
NFS = catalogue.nfs(CHECKOUT)
HUB = catalogue.hub(CHECKOUT)
TENSORFLOW = catalogue.with_tensorflow(CHECKOUT)


def instructions(file: str = "Dockerfile", stage: int = -1) -> dict[str, str]:
    """Return the instructions of a stage; the last value of a duplicate counts."""
    text = (ROOT / file).read_text()
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("FROM ")]
    start, end = list(zip(starts, [*starts[1:], len(lines)], strict=True))[stage]
    read = (re.fullmatch(r"([A-Z]+(?: --\S+)?) (.+)", line) for line in lines[start:end])
    return {found[1]: found[2] for found in read if found}


DOCKERFILE = instructions()
NFS_DOCKERFILE = instructions("docker/nfs/Dockerfile")
HUB_DOCKERFILE = instructions("docker/hub/Dockerfile")


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("USER", CONTROLLER.config.user),
        ("ENTRYPOINT", str(list(CONTROLLER.config.entry_point)).replace("'", '"')),
        ("CMD", str(list(CONTROLLER.config.command)).replace("'", '"')),
        ("EXPOSE", " ".join(port.removesuffix("/tcp") for port in CONTROLLER.config.ports)),
        ("WORKDIR", CONTROLLER.config.folder),
        ("COPY --from=build", f"{catalogue.WINDLASS} {catalogue.WINDLASS}"),
        ("COPY", "src/windlass/barrier/get_ips.sh /get_ips.sh"),
    ],
)
def test_dockerfile_builds_the_same_image(instruction: str, expected: str) -> None:
    assert DOCKERFILE[instruction] == expected


@pytest.mark.parametrize(
    ("dockerfile", "image"), [(DOCKERFILE, CONTROLLER), (HUB_DOCKERFILE, HUB)], ids=["controller", "hub"]
)
def test_dockerfile_sets_the_same_environment(dockerfile: dict[str, str], image: catalogue.Image) -> None:
    values = [value.partition("=") for value in shlex.split(dockerfile["ENV"])]
    found = {name: value.replace("$PATH", catalogue.PATH) for name, _, value in values}
    assert found == dict(image.config.environment)


def test_dockerfile_uses_the_same_files() -> None:
    copied = re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text())
    page, *copied = [each for each in copied if each != "ui"]
    assert page == "ui/package.json ui/package-lock.json"
    outermost = {
        name if name in checkout.BESIDE else name.partition("/")[0] for name in " ".join(copied).split()
    }
    assert outermost == {
        *checkout.BESIDE,
        *(path.partition("/")[0] for path in (checkout.SOURCE, checkout.IMAGE_LOCK)),
    }
    assert checkout.IMAGE_LOCK in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("FROM", f"debian:{catalogue.SUITE}-slim"),
        ("CMD", str(list(NFS.config.command)).replace("'", '"')),
        ("EXPOSE", " ".join(port.removesuffix("/tcp") for port in NFS.config.ports)),
    ],
)
def test_nfs_dockerfile_builds_the_same_image(instruction: str, expected: str) -> None:
    assert NFS_DOCKERFILE[instruction] == expected


def test_nfs_dockerfile_has_the_same_files() -> None:
    [root, link] = NFS.layers
    assert isinstance(root, catalogue.DebianRoot)
    assert f"--no-install-recommends {' '.join(root.packages)} " in NFS_DOCKERFILE["RUN"]
    assert isinstance(link, catalogue.Link)
    assert f"ln -sf {link.target} /{link.path}" in NFS_DOCKERFILE["RUN"]


def test_rendered_nfs_server_uses_the_image_name() -> None:
    assert NFS.name == servers.NFS_IMAGE


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("USER", HUB.config.user),
        ("CMD", str(list(HUB.config.command)).replace("'", '"')),
        ("EXPOSE", " ".join(port.removesuffix("/tcp") for port in HUB.config.ports)),
    ],
)
def test_hub_dockerfile_builds_the_same_image(instruction: str, expected: str) -> None:
    assert HUB_DOCKERFILE[instruction] == expected


def test_hub_dockerfile_has_the_same_packages() -> None:
    [_, packages] = HUB.layers
    assert isinstance(packages, catalogue.PythonPackages)
    stage = instructions("docker/hub/Dockerfile", 0)
    words = shlex.split(stage["RUN"])
    assert HUB_DOCKERFILE["COPY --from=build"] == f"{packages.folder} {packages.folder}"
    assert stage["COPY"] == f"requirements.txt {words[-1]}"
    assert words[-4:-1] == ["--require-hashes", "--no-deps", "--requirement"]
    assert packages.lock == (ROOT / checkout.HUB_LOCK).read_text()
    assert f"{packages.folder}/bin/pip" in words


def test_hub_and_user_servers_have_the_same_jupyterhub() -> None:
    found = [
        requirement
        for image in (HUB, TENSORFLOW)
        for layer in image.layers
        if isinstance(layer, catalogue.PythonPackages)
        for requirement in layer.requirements
        if re.match(r"jupyterhub\b(?!-)", requirement)
    ]
    assert len(found) == 2
    assert len(set(found)) == 1


def test_rendered_hub_uses_the_image_name() -> None:
    assert HUB.name == hub.HUB_IMAGE


def test_installation_uses_the_image_name() -> None:
    assert CONTROLLER.name == options.DEFAULT_IMAGE


@pytest.mark.parametrize("image", [CONTROLLER, TENSORFLOW], ids=["controller", "tensorflow"])
def test_dependencies_are_in_their_own_layer(image: catalogue.Image) -> None:
    [_, dependencies, windlass] = image.layers
    assert isinstance(dependencies, catalogue.PythonPackages)
    assert any(requirement.startswith("aiohttp") for requirement in dependencies.requirements)
    assert isinstance(windlass, catalogue.WindlassItself)
    assert dependencies.folder == windlass.folder


def test_cache_paths_are_distinct() -> None:
    images = catalogue.images(CHECKOUT)
    layers = {layer for image in images.values() for layer in image.layers}
    cache = building.Cache(Path(), "arm64")
    stems = [cache.path(what).name.rpartition("-")[0] for what in (*images.values(), *layers)]
    assert len(stems) == len(set(stems)) == 17


def test_checkout_excludes_generated_files() -> None:
    names = [name for name, _ in CHECKOUT.files]
    assert names == sorted(names)
    assert {"pyproject.toml", "src/windlass/py.typed", "src/windlass/cli/main.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]


def test_copy_of_the_checkout_is_equal(tmp_path: Path) -> None:
    CHECKOUT.copy_into(tmp_path)
    assert checkout.read(tmp_path) == CHECKOUT
