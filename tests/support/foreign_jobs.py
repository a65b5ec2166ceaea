"""Run the unchanged jobs of other systems in tests/data/foreign, whose images are folders of this machine."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

import examples

FILES: Final = Path(__file__).parents[1] / "data" / "foreign"


def image_of_example(name: str, tmp_path: Path) -> Path:
    """Return an image folder with the script of an example as /opt/digits/train.py."""
    return image({"opt/digits/train.py": (examples.EXAMPLES / name / "train.py").read_text()}, tmp_path)


def image(files: Mapping[str, str], tmp_path: Path) -> Path:
    folder = tmp_path / "image"
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def run(name: str, folder: Path, network: str, replaced: Mapping[str, str] | None = None) -> examples.Result:
    """Run a job whose image is the folder, as with `windlass run --image NAME=FOLDER tfjob.yaml`."""
    job = text(name)
    for old, new in (replaced or {}).items():
        assert old in job
        job = job.replace(old, new)
    images = {
        container["image"]
        for replicas in next(iter(_replicas(job)))
        for container in replicas["template"]["spec"]["containers"]
    }
    options = [word for each in sorted(images) for word in ("--image", f"{each}={folder}")]
    with examples.begun_with(job, "--network", network, *options) as running:
        result = running.result()
    shutil.rmtree(folder)
    return result


def _replicas(text: str) -> list[list[dict[str, dict[str, dict[str, list[dict[str, str]]]]]]]:
    """Return the replica specs of a job, in a list for each field that has them."""
    spec = yaml.safe_load(text)["spec"]
    return [list(value.values()) for field, value in spec.items() if field.endswith("ReplicaSpecs")]


NAMES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "tfjob-names": ("worker-0", ("names-ps-0", "names-worker-0", "names-worker-1")),
    "jobset-names": (
        "workers-0",
        ("names-data-server-0-0.names", "names-data-server-1-0.names", "names-workers-0-0.names"),
    ),
}
"""Jobs with a task that prints the address of each host name: the task and the names, one for each pod."""


def text(name: str, image_name: str = "") -> str:
    """Return the file of a job. `image_name` replaces its images."""
    found = (FILES / f"{name}.yaml").read_text()
    return found.replace("example.org/names:1", image_name) if image_name else found


def assert_names_resolve(job: str, lines: list[str]) -> None:
    """Require that a task of the job has printed all names, each with an address of its own."""
    found = dict(line.split() for line in lines)
    _, host_names = NAMES[job]
    assert tuple(found) == host_names
    assert len(set(found.values())) == len(host_names)
