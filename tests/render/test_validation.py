"""Validation of jobs. Diagnostics of the rendered Framework refer to lines of the job file."""

import textwrap

import pytest

from windlass.model.feature_annotations import Runtime
from windlass.model.job import Job, Role
from windlass.render import documents, validation
from windlass.wire.diagnostics import Severity

ERROR, WARNING = Severity.ERROR, Severity.WARNING

CASES: dict[str, tuple[str, list[tuple[Severity, int, str, str]]]] = {
    "nothing": ("name: a\ncommand: b\nroles: {c: {}}", []),
    "no command": (
        "name: a\nroles:\n  c: {}\n  d: {command: e}",
        [(ERROR, 3, "roles.c", "neither the role nor the job has a command")],
    ),
    "no command of a role without tasks": ("name: a\nroles: {c: {tasks: 0}, d: {command: e}}", []),
    "an idle server": (
        "name: a\nruntime: tensorflow\nroles:\n  ps: {idle: true}\n  worker: {command: e}",
        [],
    ),
    "an idle server instead of the job's command": (
        "name: a\nruntime: tensorflow\ncommand: e\nroles:\n  ps: {idle: true}\n  worker: {}",
        [],
    ),
    "neither a command nor idle": (
        "name: a\nruntime: tensorflow\nimage: i\nroles:\n  ps: {}\n  worker: {command: e}",
        [(WARNING, 5, "roles.ps", "run the entrypoint of their image. On this machine")],
    ),
    "an entrypoint": (
        "name: a\nruntime: tensorflow\nimage: i\nroles:\n  ps: {idle: false}\n  worker: {command: e}",
        [],
    ),
    "an entrypoint without an image": (
        "name: a\nruntime: tensorflow\nidle: false\nroles:\n  ps: {}\n  worker: {command: e}",
        [(ERROR, 5, "roles.ps", "neither the role nor the job has a command")],
    ),
    "an idle job with a command": (
        "name: a\nruntime: tensorflow\nidle: true\ncommand: e\nroles: {worker: {}}",
        [(ERROR, 3, "idle", "the job has a command: remove one of them")],
    ),
    "an idle role with a command": (
        "name: a\nruntime: tensorflow\nroles:\n  worker: {idle: true, command: e}",
        [(ERROR, 4, "roles.worker.idle", "the role has a command: remove one of them")],
    ),
    "an idle job of another runtime": (
        "name: a\nruntime: jax\nidle: true\nroles: {worker: {command: e}}",
        [(ERROR, 3, "idle", "the job has the runtime jax")],
    ),
    "an idle role of another runtime": (
        "name: a\nruntime: jax\ncommand: e\nroles: {worker: {}, ps: {idle: true}}",
        [
            (ERROR, 4, "roles.ps", "neither the role nor the job has a command"),
            (ERROR, 4, "roles.ps.idle", "the job has the runtime jax"),
        ],
    ),
    "an idle notebook": (
        "name: a\nruntime: tensorflow\ncommand: e\nroles: {worker: {}, jupyter: {idle: true, command: e}}",
        [(ERROR, 4, "roles.jupyter.idle", "the role has a command")],
    ),
    "workers of mpi": ("name: a\nruntime: mpi\ncommand: b\nroles: {launcher: {}, worker: {slots: 2}}", []),
    "workers of mpi without a launcher": (
        "name: a\nruntime: mpi\nroles:\n  worker: {}",
        [(ERROR, 4, "roles.worker", "neither the role nor the job has a command")],
    ),
    "slots of another runtime": (
        "name: a\ncommand: b\nroles:\n  c:\n    slots: 2",
        [(ERROR, 5, "roles.c.slots", "only mpi has slots")],
    ),
    "no slots": (
        "name: a\nruntime: mpi\ncommand: b\nroles:\n  c:\n    slots: 0",
        [(ERROR, 6, "roles.c.slots", "expected")],
    ),
    "a volume in the place of the key": (
        "name: a\nruntime: mpi\ncommand: b\nvolumes:\n  v: {emptyDir: {}, at: /windlass/ssh}\nroles: {c: {}}",
        [(ERROR, 5, "volumes.v.at", "which is the path of the SSH key")],
    ),
    "no command of a notebook": (
        "name: a\nruntime: tensorflow\nroles:\n  worker: {command: e}\n  jupyter: {}",
        [(ERROR, 5, "roles.jupyter", "neither the role nor the job has a command")],
    ),
    "a job that never ends": (
        "name: a\ncommand: b\nruntime: tensorflow\nroles:\n  ps: {}",
        [(WARNING, 4, "roles", "no role ends by itself")],
    ),
    "an endless job with a completion": (
        "name: a\ncommand: b\nruntime: tensorflow\nroles:\n  ps: {completion: {minSucceededTaskCount: 1}}",
        [],
    ),
    "two leaders beside a ps": (
        "name: a\ncommand: b\nruntime: tensorflow\nroles:\n  ps: {}\n  worker: {}\n  workers: {}",
        [(WARNING, 7, "roles.workers", "worker and workers all decide the result")],
    ),
    "two leaders alone": (
        "name: a\ncommand: b\nruntime: tensorflow\nroles:\n  worker: {}\n  workers: {}",
        [],
    ),
    "a volume where shared memory is": (
        "name: a\ncommand: b\nshmSize: 1Gi\nvolumes:\n  v: {emptyDir: {}, at: /dev/shm/}\nroles: {c: {}}",
        [(ERROR, 5, "volumes.v.at", "which is the path of shmSize")],
    ),
    "a volume where the code is": (
        "name: a\ncommand: b\ncode: .\nvolumes:\n  v: {emptyDir: {}, at: /windlass/code}\nroles: {c: {}}",
        [(ERROR, 5, "volumes.v.at", "which is the path of code")],
    ),
    "a volume where a companion has its own": (
        "name: a\ncommand: b\njupyter: {}\nvolumes:\n  v: {pvc: p, at: /windlass/home/x}\nroles: {c: {}}",
        [(ERROR, 5, "volumes.v.at", "which is the path of a folder of jupyter and hub")],
    ),
    "a volume there without companions": (
        "name: a\ncommand: b\nvolumes:\n  v: {pvc: p, at: /windlass/home}\nroles: {c: {}}",
        [],
    ),
    "an undeclared port": (
        "name: a\nruntime: jax\nroles:\n  c:\n    command: train --port 2232",
        [(WARNING, 5, "roles.c.command", "Did you mean 2222")],
    ),
    "a port in a variable": (
        "name: a\ncommand: b\nport: 2222\nenv:\n  X: 1\n  MY_PORT: 2232\nroles: {c: {}}",
        [(WARNING, 6, "env.MY_PORT", "Did you mean 2222")],
    ),
    "a role that no shell knows": (
        "name: a\ncommand: b\nroles:\n  1c: {}",
        [(ERROR, 4, 'roles["1c"]', "whose name may not start with a digit")],
    ),
    "a hostname that is cut": (
        f"name: {'a' * 60}\ncommand: b\nroles:\n  worker: {{}}",
        [(WARNING, 4, "roles.worker", "its host name is truncated")],
    ),
    "more failures than tasks": (
        "name: a\ncommand: b\nroles:\n  c:\n    tasks: 2\n    completion:\n      minFailedTaskCount: 3",
        [(WARNING, 7, "roles.c.completion.minFailedTaskCount", "3")],
    ),
    "a mount without a volume": (
        "name: a\ncommand: b\npod: {spec: {containers: [{name: main, volumeMounts: [{name: x, mountPath: /x}]}]}}\nroles: {c: {}}",  # noqa: E501
        [(ERROR, 3, "pod", "expected the name of a volume of this pod")],
    ),
    "a mount that lost its volume": (
        "name: a\ncommand: b\nvolumes:\n  v: {emptyDir: {}, at: /v}\npod: {spec: {volumes: null}}\nroles: {c: {}}",
        [
            (ERROR, 3, "volumes", 'found "v", expected the name of a volume of this pod'),
            (ERROR, 3, "volumes", 'found "windlass-shm", expected the name of a volume'),
            (ERROR, 3, "volumes", 'found "windlass-state", expected the name of a volume'),
        ],
    ),
    "an elastic role of another runtime": (
        "name: a\ncommand: b\nruntime: jax\nroles:\n  c:\n    elastic: {min: 1, max: 2}",
        [(ERROR, 6, "roles.c.elastic", "only pytorch has elastic roles")],
    ),
    "tasks outside of the range": (
        "name: a\ncommand: b\nruntime: pytorch\nroles:\n  c:\n    tasks: 3\n    elastic: {min: 1, max: 2}",
        [(ERROR, 7, "roles.c.elastic", "the role has 3 tasks: expected 1 to 2")],
    ),
    "a range that is empty": (
        "name: a\ncommand: b\nruntime: pytorch\nroles:\n  c:\n    elastic: {min: 2, max: 1}",
        [(ERROR, 6, "roles.c.elastic", "expected a min that is not above max")],
    ),
    "an elastic role without retries": (
        "name: a\ncommand: b\nruntime: pytorch\nroles:\n  c:\n    retry: 0\n    elastic: {min: 1, max: 2}",
        [(ERROR, 7, "roles.c.elastic", "but retry is 0")],
    ),
    "an elastic notebook": (
        "name: a\ncommand: b\nruntime: pytorch\nroles:\n  c: {}\n  notebook:\n    elastic: {min: 1, max: 2}",
        [(ERROR, 7, "roles.notebook.elastic", "do not take part in the training")],
    ),
    "the size of shared memory of one role and a volume there": (
        "name: a\ncommand: b\nvolumes:\n  v: {emptyDir: {}, at: /dev/shm}\nroles: {c: {shmSize: 1Gi}}",
        [(ERROR, 4, "volumes.v.at", "which is the path of shmSize")],
    ),
    "a template without a spec": (
        "name: a\ncommand: b\npod: {spec: null}\nroles: {c: {}}",
        [(ERROR, 3, "pod", "missing required field")],
    ),
    "a misspelt field inside pod, said once": (
        "name: a\ncommand: b\npod:\n  spec:\n    hostNetwrk: true\nroles: {c: {}, d: {}}",
        [(ERROR, 5, "pod.spec.hostNetwrk", '"hostNetwork"?')],
    ),
    "too many to list in an environment variable": (
        "name: a\ncommand: b\nroles:\n  worker: {tasks: 10000}",
        [(ERROR, 1, "", "too many to list in an environment variable")],
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
def test_diagnostics_of_job(text: str, expected: list[tuple[Severity, int, str, str]]) -> None:
    found = documents.read(text.encode(), "job.yaml").diagnostics
    assert [(diagnostic.severity, diagnostic.line, diagnostic.path) for diagnostic in found] == [
        (severity, line, path) for severity, line, path, _ in expected
    ], found
    for diagnostic, (*_, words) in zip(found, expected, strict=True):
        assert words in diagnostic.message


def test_diagnostics_of_job_without_file() -> None:
    good = Job(name="a", runtime=Runtime.JAX, command=("b",), roles={"worker": Role(tasks=2)})
    assert validation.diagnostics_of(good) == ()
    bad = Job(name="A B", command="b", roles={"my-role": Role()})
    assert [diagnostic.path for diagnostic in validation.diagnostics_of(bad)] == ["name", "roles.my-role"]


def test_diagnostic_in_second_document_has_its_line() -> None:
    text = textwrap.dedent(
        """\
        name: first
        command: b
        roles: {c: {}}
        ---
        name: second
        roles:
          c: {}
        """
    )
    (diagnostic,) = documents.read(text.encode(), "job.yaml").diagnostics
    assert (diagnostic.line, diagnostic.path) == (7, "roles.c")
