"""Statements 52 to 54: the YAML of the old launcher's manual, corrected, with folders instead of images.

As in the manual everything uses the host network. Ports and folders are replaced by free and temporary ones.
"""

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest
from pods import commands, specs

import examples
from conformance.client import Answer
from conformance.waiting import wait_until
from examples import EXAMPLES, Result
from windlass.render import documents

NAME: Final = "framework-launcher"
ORIGINALS: Final = EXAMPLES.parent / "tests" / "data" / "launcher"
LAUNCHER: Final = "zichengfang/k8s_launcher:distributedtf"
INIT: Final = "zichengfang/k8s_initcontainer:update"
BENCHMARKS: Final = "benchmarks/scripts/tf_cnn_benchmarks"

INDENT: Final = " " * 16
NFS: Final = f"{INDENT}nfs:\n{INDENT}  server: 10.169.4.12\n{INDENT}  path: /home/t-zifang/nfs\n"
HOST_PATH: Final = "path: /data\n"
ANNOTATION: Final = "  annotations:\n    windlass.dev/barrier: own\n"
CORRECTIONS: Final = {
    "name": ("framework_name=tf-example", "framework_name=tfexample", -1),
    "mounts": (" olumeMounts:", " volumeMounts:", -1),
    "ports": ("_port=4686", "_port=4986", -1),
    "completion": (
        "minSucceededTaskCount: -1",
        "minSucceededTaskCount: 1",
        1,
    ),  # the port of the worker comes first
    "barrier": ("  name: tfexample\n", f"  name: tfexample\n{ANNOTATION}", -1),
    "volume": (NFS, f"{INDENT}hostPath:\n{INDENT}  {HOST_PATH}", -1),
}
HOSTS: Final = ("10.151.40.241", "10.151.40.242")

STEP: Final = re.compile(r"(\d+)\timages/sec: [\d.]+ \+/- [\d.]+ \(jitter = [\d.]+\)\t([\d.]+)")
TOTAL: Final = re.compile(r"total images/sec: [\d.]+")


class Images(msgspec.Struct, frozen=True):
    """Copies of the example's images, deleted with their files."""

    folder: Path

    @property
    def launcher(self) -> Path:
        return self.folder / "k8s_launcher"

    @property
    def init(self) -> Path:
        return self.folder / "k8s_initcontainer"

    @property
    def options(self) -> tuple[str, ...]:
        return ("--image", f"{LAUNCHER}={self.launcher}", "--image", f"{INIT}={self.init}")

    def run(self, file: str, *options: str, replaced: Mapping[str, str], folder: str = NAME) -> Result:
        return examples.run_example(
            folder, *self.options, *options, file=file, replaced=replaced, has_code=False
        )


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    if not commands.best().has_mounts:
        pytest.skip("the files of an image appear only where pods have mounts of their own")
    with tempfile.TemporaryDirectory(prefix="windlass-images-") as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "images"
        shutil.copytree(EXAMPLES / NAME / "images", folder)
        yield Images(folder)


@pytest.fixture(scope="module")
def data(images: Images) -> Path:
    """Create training data in the image as the README says."""
    examples.needs("tensorflow", "sklearn")
    folder = images.launcher / BENCHMARKS / "data"
    script = EXAMPLES / NAME / "make_cifar10.py"
    subprocess.run([sys.executable, script, folder], check=True, timeout=examples.SECONDS)  # noqa: S603
    return folder


@pytest.fixture
def ports() -> dict[str, str]:
    return {port: str(specs.free_port()) for port in ("49866", "49867")}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Replacement of /data or of the NFS mount."""
    with tempfile.TemporaryDirectory(prefix="windlass-data-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def host_path(folder: Path) -> str:
    return f"path: {folder}\n"


def in_place_of_nfs(folder: Path) -> str:
    return f"{INDENT}hostPath:\n{INDENT}  path: {folder}\n"


# The corrections


@pytest.mark.parametrize(
    ("example", "original", "corrected"),
    [
        ("simple.yaml", "simple-tensorflow.yaml", ("name", "completion", "barrier")),
        ("init-container.yaml", "init-container.yaml", ("mounts", "ports", "barrier")),
        ("nfs.yaml", "nfs-volume.yaml", ()),
        ("host-path.yaml", "host-path-single-node.yaml", ()),
        ("multi-node-host-path.yaml", "host-path-node-affinity.yaml", ()),
        ("nfs-training.yaml", "tensorflow-nfs.yaml", ("mounts", "ports", "completion", "barrier")),
        (
            "host-path-training.yaml",
            "tensorflow-nfs.yaml",
            ("mounts", "ports", "completion", "barrier", "volume"),
        ),
    ],
)
def test_examples_differ_from_the_manual_only_in_corrections(
    example: str, original: str, corrected: tuple[str, ...]
) -> None:
    text = "\n".join(line.rstrip() for line in (ORIGINALS / original).read_text().split("\n"))
    for correction in corrected:
        old, new, count = CORRECTIONS[correction]
        assert old in text
        text = text.replace(old, new, count)
    found = (EXAMPLES / NAME / example).read_bytes()
    assert found.decode() == text
    assert documents.read(found, example).diagnostics == ()


# Addresses


@pytest.mark.parametrize("network", ["isolated", "shared"])
def test_init_container_gets_the_addresses(images: Images, ports: dict[str, str], network: str) -> None:
    result = images.run("init-container.yaml", "--network", network, replaced=ports).expect("Succeeded")
    for task in ("worker-0", "ps-0"):
        said = [each for each in result.events if each["event"] == "log" and each["object"] == task]
        workers, ps = (each["line"] for each in said if each["container"] == "tf")
        assert re.fullmatch(rf"[\d.]+:{ports['49866']}", workers)
        assert re.fullmatch(rf"[\d.]+:{ports['49867']}", ps)


def test_misspelt_framework_name_fails(images: Images, ports: dict[str, str]) -> None:
    """The manual's own file asks for tf-example, but is called tfexample."""
    once = {"maxRetryCount: 3": "maxRetryCount: 0"}
    result = images.run("simple-tensorflow.yaml", replaced=ports | once, folder=str(ORIGINALS))
    assert result.verdict["code"] == 210
    words = 'get_ips.sh: cannot wait for Framework "tf-example"; this pod belongs to "tfexample"'
    assert f"worker-0 | {words}" in result.lines or f"ps-0 | {words}" in result.lines


# Volumes


def of_worker(ports: dict[str, str]) -> dict[str, str]:
    return {"49866": ports["49866"]}


def test_host_path_volume(images: Images, folder: Path, ports: dict[str, str]) -> None:
    say_hello(folder)
    result = images.run("host-path.yaml", replaced=of_worker(ports) | {HOST_PATH: host_path(folder)})
    assert result.expect("Succeeded").lines_of("worker-0") == ["hostpathtest.txt", "Hello, HostPath"]


def test_nfs_example_with_another_volume(images: Images, folder: Path, ports: dict[str, str]) -> None:
    (folder / "nfstest.txt").write_text("Hello, NFS\n")
    result = images.run("nfs.yaml", replaced=of_worker(ports) | {NFS: in_place_of_nfs(folder)})
    assert result.expect("Succeeded").lines_of("worker-0") == ["nfstest.txt", "Hello, NFS"]


def test_unreachable_nfs_server_is_reported(images: Images, ports: dict[str, str]) -> None:
    """The message names the mount, whether or not this machine can mount NFS."""
    words = "cannot mount 10.169.4.12:/home/t-zifang/nfs: "
    with examples.begun(
        NAME, *images.options, file="nfs.yaml", replaced=of_worker(ports), has_code=False
    ) as running:
        running.says(words)
        running.command.press_ctrl_c()
        result = running.result()
    (told,) = {each["message"] for each in result.events if each.get("reason") == "FailedMount"}
    assert told.startswith(f"FailedMount: {words}")
    assert "\n" not in told
    assert result.lines == []


def test_host_path_on_selected_nodes(images: Images, folder: Path, ports: dict[str, str]) -> None:
    """Their labels have the names of these nodes as values."""
    say_hello(folder)
    nodes = dict(zip(HOSTS, ("windlass-1", "windlass-2"), strict=True))
    result = images.run(
        "multi-node-host-path.yaml",
        *("--nodes", "3"),
        replaced=of_worker(ports) | nodes | {HOST_PATH: host_path(folder)},
    )
    assert result.expect("Succeeded").lines_of("worker-0") == ["hostpathtest.txt", "Hello, HostPath"]
    (scheduled,) = (each["message"] for each in result.events if each.get("reason") == "Scheduled")
    assert scheduled in {f"scheduled to {node}" for node in nodes.values()}


def test_host_path_on_nodes_labelled_as_in_the_manual(
    images: Images, folder: Path, ports: dict[str, str]
) -> None:
    """Posted to the API server as in the manual."""
    say_hello(folder)
    text = (EXAMPLES / NAME / "multi-node-host-path.yaml").read_text().replace(HOST_PATH, host_path(folder))
    text = text.replace("49866", ports["49866"])
    default = "namespaces/default"
    frameworks = f"/apis/launcher.microsoft.com/v1/{default}/frameworks"
    with commands.home(commands.best()) as home, commands.local(home, "--nodes", "3") as local:
        client = local.client
        home.windlass("local", "image", "add", LAUNCHER, images.launcher).expect(0)
        client.post(frameworks, text.encode(), {"Content-Type": "application/yaml"}).expect(201)
        wait_until(client, f"/api/v1/{default}/pods/hostpathexample-worker-0", fits_nowhere)
        for node, host in zip(("windlass-1", "windlass-2"), HOSTS, strict=True):
            labels = {"metadata": {"labels": {"kubernetes.io/hostname": host}}}
            client.patch(f"/api/v1/nodes/{node}", labels).expect(200)
        answer = wait_until(client, f"{frameworks}/hostpathexample", has_completed)
    assert answer.body["status"]["attemptStatus"]["completionStatus"]["code"] == 0


def fits_nowhere(pod: Answer) -> bool:
    conditions = pod.body["status"].get("conditions", ())
    words = "3 node(s) didn't match Pod's node affinity/selector"
    return any(words in condition.get("message", "") for condition in conditions)


def has_completed(framework: Answer) -> bool:
    return bool((framework.body.get("status") or {}).get("state") == "Completed")


def say_hello(folder: Path) -> None:
    (folder / "hostpathdir").mkdir()
    (folder / "hostpathdir" / "hostpathtest.txt").write_text("Hello, HostPath\n")


# Training


def test_simple_training(images: Images, data: Path, ports: dict[str, str]) -> None:
    """With the data of the image."""
    expect_training(images.run("simple.yaml", replaced=ports))


@pytest.mark.parametrize("removed", ["", ANNOTATION], ids=["gang", "framework"])
def test_host_path_training(images: Images, data: Path, ports: dict[str, str], removed: str) -> None:
    """With published addresses, and with addresses read from the Framework.

    nfs-training.yaml differs only in its volume.
    """
    replaced = ports | {HOST_PATH: host_path(data)} | ({removed: ""} if removed else {})
    expect_training(images.run("host-path-training.yaml", replaced=replaced))


def test_training_with_several_tasks_per_role(images: Images, data: Path) -> None:
    """On one machine each needs its own address, because all listen on the same two ports."""
    two = {f"{field}1": f"{field}2" for field in ("taskNumber: ", "minSucceededTaskCount: ", "_tasknum=")}
    two["hostNetwork: true"] = "hostNetwork: false"
    options = ("--network", "isolated")
    result = images.run("host-path-training.yaml", *options, replaced=two | {HOST_PATH: host_path(data)})
    expect_training(result, tasks=2)


def expect_training(result: Result, tasks: int = 1) -> None:
    """Check that every worker has trained and that the parameter servers were ended."""
    result.expect("Succeeded")
    for index in range(tasks):
        lines = result.lines_of(f"worker-{index}")
        steps = [found for line in lines if (found := STEP.fullmatch(line))]
        assert [int(step[1]) for step in steps] == [1, 10, 20, 30, 40, 50, 60], result
        losses = [float(step[2]) for step in steps]
        assert statistics.fmean(losses[-3:]) < 1.5, result  # an untrained model has ln(10), about 2.3
        assert sum(TOTAL.fullmatch(line) is not None for line in lines) == 1, result
        assert f"Running parameter server {index}" in result.lines_of(f"ps-{index}")
        assert "Stopped" in result.reasons_of(f"ps-{index}"), result
