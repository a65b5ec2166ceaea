"""Build the layers of the catalogue: Debian with mmdebstrap, Python packages with pip.

pip runs on the Python of the Debian root, without a container, so that dependencies and bytecode fit the image
whichever Python runs this tool.
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import workshops  # of the parent folder
from images import archives, catalogue
from workshops import Workshop, WorkshopError

UNREAD: Final = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
"""Files that no program in a container reads."""

FORGET_THIS_MACHINE: Final = 'rm -rf "$1"/etc/apt/sources.list* "$1"/etc/apt/apt.conf.d/99mmdebstrap'
"""Package sources, proxies and their passwords must not get into an image."""

APT_SETTINGS: Final = (
    'APT::Sandbox::User "root";',  # its own user may not enter the folder
    'Acquire::Languages "none";',
    'Acquire::IndexTargets::deb-src::Sources::DefaultEnabled "false";',  # no source is needed
)
PIP_INSTALL: Final = (
    "install",
    "--quiet",
    "--no-compile",
    "--only-binary=:all:",
    "--no-warn-script-location",
)
PACKAGES: Final = f"lib/python{catalogue.PYTHON}/site-packages"
DATA: Final = ("etc", "share")
"""Data files that packages install next to the programs of an environment, e.g. the pages of JupyterLab."""


def debian(shop: Workshop, layer: catalogue.DebianRoot, target: Path) -> None:
    shop.say(f"building a Debian root of {catalogue.SUITE} with {', '.join(layer.packages)}")
    _ensure_mmdebstrap(shop)
    _run(
        shop,
        # Its mounts end with its namespace, so that no cleanup meets them.
        *(["unshare", "--mount"] if os.geteuid() == 0 else []),
        "mmdebstrap",
        "--quiet",
        "--format=tar",
        "--variant=essential",
        f"--include={','.join(layer.packages)}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in UNREAD),
        f"--aptopt={_apt_settings(shop)}",
        f"--customize-hook={FORGET_THIS_MACHINE}",
        catalogue.SUITE,
        target,
        *workshops.write_sources(shop.folder / "sources", catalogue.SUITE),
    )


def on_debian(
    shop: Workshop,
    layer: catalogue.FileOfDebian | catalogue.PythonPackages | catalogue.WindlassItself | catalogue.Link,
    root: Path,
    target: Path,
) -> None:
    """Build any other layer on the layer of Debian."""
    tree = shop.folder / layer.name
    tree.mkdir()
    match layer:
        case catalogue.FileOfDebian():
            _extract(shop, root, layer.path, tree)
        case catalogue.PythonPackages():
            _install_packages(shop, layer, _python(shop, root), tree)
        case catalogue.WindlassItself():
            _install_windlass(shop, layer, _python(shop, root), tree)
        case catalogue.Link():
            _link(layer, tree)
    archives.write_layer(target, tree)
    shutil.rmtree(tree)


def _run(shop: Workshop, *argv: str | Path) -> None:
    settings = {"TMPDIR": str(shop.folder), "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    shop.run(argv, shop.folder, {**os.environ, **settings})


# Debian


def _ensure_mmdebstrap(shop: Workshop) -> None:
    if shutil.which("mmdebstrap"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise WorkshopError(
            "mmdebstrap is required to build the images. "
            "Install it as root on Debian: apt-get install --no-install-recommends mmdebstrap"
        )
    shop.say("installing mmdebstrap, which builds the images, on this machine")
    _run(shop, "apt-get", "--quiet", "update")
    _run(shop, "apt-get", "--quiet", "--yes", "install", "--no-install-recommends", "mmdebstrap")


def _apt_settings(shop: Workshop) -> Path:
    """Write a file with this machine's settings for downloads."""
    file = shop.folder / "apt.conf"
    about_fetching = re.compile(r"Acquire::(?!IndexTargets::|Languages)")
    fetching = [line for line in workshops.apt_settings().splitlines() if about_fetching.match(line)]
    file.write_text("\n".join([*fetching, *APT_SETTINGS, ""]))
    return file


def _extract(shop: Workshop, root: Path, path: str, folder: Path) -> None:
    _run(shop, "tar", "--extract", f"--file={root}", f"--directory={folder}", "--no-same-owner", f"./{path}")


def _link(layer: catalogue.Link, folder: Path) -> None:
    path = folder / layer.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(layer.target)


# Python


def _python(shop: Workshop, root: Path) -> Path:
    """Return a program that runs the root's Python with the root's libraries on this machine."""
    program = shop.folder / "python"
    if program.exists():
        return program
    unpacked = shop.folder / "root"
    unpacked.mkdir()
    _extract(shop, root, "usr", unpacked)
    [loader] = unpacked.glob("usr/lib/*-linux-gnu/ld-linux-*.so.*")
    python = unpacked / f"usr/bin/python{catalogue.PYTHON}"
    command = shlex.join([str(loader), "--library-path", str(loader.parent), str(python)])
    program.write_text(f'#!/bin/sh\nPYTHONHOME={shlex.quote(str(unpacked / "usr"))} exec {command} "$@"\n')
    program.chmod(0o755)
    return program


def _install_packages(shop: Workshop, layer: catalogue.PythonPackages, python: Path, tree: Path) -> None:
    shop.say(f"installing {', '.join(layer.requirements)}")
    environment = tree / layer.folder.lstrip("/")
    packages = environment / PACKAGES
    wanted: tuple[str, ...] = layer.requirements
    if layer.lock:
        lock = shop.folder / f"{layer.name}.txt"
        lock.write_text(layer.lock)
        wanted = ("--require-hashes", "--no-deps", f"--requirement={lock}")
    _pip(shop, python, *PIP_INSTALL, f"--target={packages}", *wanted)
    for folder in layer.left_out:
        shutil.rmtree(packages / folder)
    _move_programs(layer.folder, environment)
    (environment / "bin/python3").symlink_to(f"/usr/bin/python{catalogue.PYTHON}")
    (environment / "bin/python").symlink_to("python3")
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    _compile(shop, python, tree)


def _install_windlass(shop: Workshop, layer: catalogue.WindlassItself, python: Path, tree: Path) -> None:
    shop.say("building Windlass's package")
    source, wheels = shop.folder / "checkout", shop.folder / "wheels"
    layer.checkout.copy_into(source)
    pip = (sys.executable, "-m", "pip")
    _run(shop, *pip, "wheel", "--quiet", "--no-deps", f"--wheel-dir={wheels}", source)
    environment = tree / layer.folder.lstrip("/")
    # By name rather than by path, which pip would record in the package.
    found = ("--no-deps", "--no-index", f"--find-links={wheels}", f"windlass=={layer.checkout.version}")
    _pip(shop, python, *PIP_INSTALL, f"--target={environment / PACKAGES}", *found)
    _move_programs(layer.folder, environment)
    shutil.copyfile(environment / PACKAGES / "windlass/barrier/get_ips.sh", tree / "get_ips.sh")
    _compile(shop, python, tree)


def _pip(shop: Workshop, python: Path, *arguments: str | Path) -> None:
    _run(shop, sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments)


def _move_programs(folder: str, environment: Path) -> None:
    """Move programs and data files from pip's target folder into the virtual environment."""
    packages = environment / PACKAGES
    (environment / "bin").mkdir()
    for name in DATA:
        if (packages / name).is_dir():
            (packages / name).rename(environment / name)
    programs = packages / "bin"
    if not programs.is_dir():
        return
    for program in programs.iterdir():
        _, _, text = program.read_text().partition("\n")
        (environment / "bin" / program.name).write_text(f"#!{folder}/bin/python3\n{text}")
        (environment / "bin" / program.name).chmod(0o755)
    shutil.rmtree(programs)


def _compile(shop: Workshop, python: Path, tree: Path) -> None:
    """Compile to unchecked bytecode, because file times are not kept."""
    how = ("--invalidation-mode", "unchecked-hash", "-q", "-j", "0", "-s", tree, "-p", "/")
    _run(shop, python, "-m", "compileall", *how, tree)
