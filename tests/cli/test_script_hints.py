"""Hints that are inferred from a script, which is read and never run."""

from pathlib import Path

import pytest

from windlass.cli import script_hints
from windlass.cli.script_hints import Hints
from windlass.model.feature_annotations import Runtime

EXAMPLES = Path(__file__).parents[2] / "examples"
BENCHMARK = "framework-launcher/images/k8s_launcher/benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py"
LISTS = ("--ps_hosts=$(PS_HOSTS)", "--worker_hosts=$(WORKER_HOSTS)")
TASK = ("--job_name=$(JOB_NAME)", "--task_index=$(TASK_INDEX)")

SCRIPTS: dict[str, tuple[str, Hints]] = {
    "nothing": ("print(1)", Hints()),
    "empty": ("", Hints()),
    "TensorFlow alone": (
        "import tensorflow as tf",
        Hints(runtime=Runtime.TENSORFLOW, evidence=("imports tensorflow",)),
    ),
    "a submodule": (
        "from tensorflow.keras import layers",
        Hints(runtime=Runtime.TENSORFLOW, evidence=("imports tensorflow",)),
    ),
    "TF_CONFIG": (
        "import os, json\njson.loads(os.environ['TF_CONFIG'])",
        Hints(runtime=Runtime.TENSORFLOW, is_distributed=True, evidence=("reads TF_CONFIG",)),
    ),
    "PS_HOSTS": (
        "import os\nos.getenv('PS_HOSTS')",
        Hints(runtime=Runtime.TENSORFLOW, is_distributed=True, uses_servers=True, evidence=("reads PS_HOSTS",)),
    ),
    "the coordinator": (
        "import tensorflow as tf\ntf.distribute.coordinator.ClusterCoordinator(x)",
        Hints(
            runtime=Runtime.TENSORFLOW,
            is_distributed=True,
            uses_servers=True,
            has_chief=True,
            evidence=("imports tensorflow", "uses ClusterCoordinator"),
        ),
    ),
    "MultiWorkerMirroredStrategy": (
        "from tensorflow.distribute import MultiWorkerMirroredStrategy",
        Hints(
            runtime=Runtime.TENSORFLOW,
            is_distributed=True,
            evidence=("imports tensorflow", "uses MultiWorkerMirroredStrategy"),
        ),
    ),
    "options of argparse": (
        "p.add_argument('--ps_hosts')\np.add_argument('--worker_hosts')\np.add_argument('--task_index', type=int)",
        Hints(
            runtime=Runtime.TENSORFLOW,
            is_distributed=True,
            uses_servers=True,
            arguments=(*LISTS, TASK[1]),
            evidence=("takes --ps_hosts", "takes --worker_hosts", "takes --task_index"),
        ),
    ),
    "options of tf.app.flags": (
        "flags.DEFINE_string('worker_hosts', '', '')\nflags.DEFINE_string('job_name', '', '')",
        Hints(
            runtime=Runtime.TENSORFLOW,
            is_distributed=True,
            arguments=(LISTS[1], TASK[0]),
            evidence=("takes --worker_hosts", "takes --job_name"),
        ),
    ),
    "options with hyphens": (
        "p.add_argument('-w', '--worker-hosts')",
        Hints(
            runtime=Runtime.TENSORFLOW,
            is_distributed=True,
            arguments=("--worker-hosts=$(WORKER_HOSTS)",),
            evidence=("takes --worker-hosts",),
        ),
    ),
    "a job name of another kind": (
        "import torch\np.add_argument('--job_name')",
        Hints(runtime=Runtime.PYTORCH, evidence=("imports torch",)),
    ),
    "PyTorch": (
        "import torch.distributed as dist\ndist.init_process_group('gloo')",
        Hints(
            runtime=Runtime.PYTORCH,
            is_distributed=True,
            evidence=("imports torch", "uses init_process_group"),
        ),
    ),
    "RANK": (
        "import torch, os\nrank = int(os.environ['RANK'])",
        Hints(runtime=Runtime.PYTORCH, is_distributed=True, evidence=("imports torch", "reads RANK")),
    ),
    "JAX": (
        "import jax\njax.distributed.initialize()",
        Hints(
            runtime=Runtime.JAX,
            is_distributed=True,
            evidence=("imports jax", "calls jax.distributed.initialize"),
        ),
    ),
    "MPI": ("from mpi4py import MPI", Hints(runtime=Runtime.MPI, is_distributed=True, evidence=("imports mpi4py",))),
    "Horovod over TensorFlow": (
        "import tensorflow as tf\nimport horovod.tensorflow as hvd",
        Hints(runtime=Runtime.MPI, is_distributed=True, evidence=("imports horovod",)),
    ),
    "two libraries, of which one is distributed": (
        "import tensorflow as tf\nimport torch\ntorch.nn.parallel.DistributedDataParallel(m)",
        Hints(
            runtime=Runtime.PYTORCH,
            is_distributed=True,
            evidence=("imports torch", "uses DistributedDataParallel"),
        ),
    ),
    "a local module": ("from .torch import x\nfrom mytorch import y", Hints()),
}  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), SCRIPTS.values(), ids=SCRIPTS)
def test_hints_are_inferred_from_the_source(source: str, expected: Hints) -> None:
    found = script_hints.inspect_script(source.encode())

    assert sorted(found.evidence) == sorted(expected.evidence)
    assert (
        found.runtime,
        found.is_distributed,
        found.uses_servers,
        found.has_chief,
        found.arguments,
    ) == (
        expected.runtime,
        expected.is_distributed,
        expected.uses_servers,
        expected.has_chief,
        expected.arguments,
    )
    assert found.problem == ""


UNREADABLE: dict[str, tuple[bytes, Runtime | None, str]] = {
    "Python 2": (b"import tensorflow as tf\nprint 'x'\n", Runtime.TENSORFLOW, "line 2"),
    "a syntax error": (b"import torch\ndef f(:\n", Runtime.PYTORCH, "line 2"),
    "nulls": (b"\x00\x01", None, "line 1"),
    "not UTF-8": (b"import jax\nx = '\xff\xfe'\n", Runtime.JAX, "utf-8"),
    "deep nesting": (b"import jax\n" + b"(" * 5000 + b")" * 5000, Runtime.JAX, "too many nested"),
    "many operators": (b"import jax\nx = " + b"-" * 200_000 + b"1", Runtime.JAX, ""),
    "huge": (b"#" * (script_hints.MAX_BYTES + 1), None, "larger than 4 MiB"),
}


@pytest.mark.parametrize(("source", "runtime", "trouble"), UNREADABLE.values(), ids=UNREADABLE)
def test_unparsable_script_is_searched_for_words(
    source: bytes, runtime: Runtime | None, trouble: str
) -> None:
    hints = script_hints.inspect_script(source)

    assert hints.runtime is runtime
    assert hints.problem
    assert trouble in hints.problem


def test_declared_encoding_is_used() -> None:
    assert script_hints.inspect_script("# coding: latin-1\nimport jax  # é\n".encode("latin-1")).problem == ""


@pytest.mark.parametrize(
    ("script", "runtime", "uses_servers", "arguments"),
    [
        ("digits-ps/train.py", Runtime.TENSORFLOW, True, ()),
        ("digits-coordinator/train.py", Runtime.TENSORFLOW, True, ()),
        ("digits-mwms/train.py", Runtime.TENSORFLOW, False, ()),
        ("digits-ddp/train.py", Runtime.PYTORCH, False, ()),
        ("digits-jax/train.py", Runtime.JAX, False, ()),
        (BENCHMARK, Runtime.TENSORFLOW, True, (*LISTS, *TASK)),
    ],
)
def test_hints_of_the_examples(
    script: str, runtime: Runtime, uses_servers: bool, arguments: tuple[str, ...]
) -> None:
    hints = script_hints.inspect_script((EXAMPLES / script).read_bytes())

    assert hints.is_distributed
    assert (hints.runtime, hints.uses_servers, hints.arguments) == (runtime, uses_servers, arguments)
