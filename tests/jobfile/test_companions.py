"""Diagnostics of the companions of a job file."""

import textwrap

import pytest

from windlass.jobfile import reader
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import parse as yaml_parse

VALID = textwrap.dedent(
    """\
    name: digits
    command: python train.py
    volumes:
      data: {pvc: data, at: /data, readOnly: true}
      output: {pvc: output, at: /output}
      own: {emptyDir: {}, at: /scratch}
      conf: {configMap: c, at: /conf}
    tensorboard: {logdir: /output/runs}
    jupyter:
      folder: /output/notebooks
      passwordFrom: {env: PASSWORD}
    hub:
      users: [ana, ben]
      admins: [ana]
      config: |
        c.Spawner.debug = True
        assert 1 is 1
    roles: {worker: {tasks: 2}}
    """
)


def diagnostics_of(text: str) -> list[Diagnostic]:
    (document,) = yaml_parse.parse(text.encode()).documents
    return [*document.diagnostics, *reader.check(document.root, "")]


def replaced(old: str, new: str) -> str:
    assert VALID.count(old) == 1, old
    return VALID.replace(old, new)


LONG = "x" * 55
FOLDER, SOURCE, USERS, CONFIG = "jupyter.folder", "jupyter.passwordFrom", "hub.users", "hub.config"
INVALID: dict[str, tuple[str, int, str, str]] = {
    # text, line, path, words of the message
    "nothing": (replaced("{logdir: /output/runs}", ""), 8, "tensorboard", "write tensorboard: {} for the defaults"),
    "something else": (replaced("{logdir: /output/runs}", "true"), 8, "tensorboard", "expected a mapping"),
    "a misspelt field": (replaced("logdir:", "logDir:"), 8, "tensorboard.logDir", 'Did you mean "logdir"?'),
    "a log directory in no volume": (
        replaced("/output/runs", "/runs"), 8, "tensorboard.logdir", "in a volume of the job: /data, /output"
    ),
    "the usual one in no volume": (
        replaced("at: /output", "at: /out").replace("/output", "/out").replace("logdir: /out/runs", ""), 8,
        "tensorboard.logdir",
        "no volume at /output, where TensorBoard reads",
    ),
    "a log directory of each task": (
        replaced("/output/runs", "/scratch/a"), 8, "tensorboard.logdir", "which is empty when a task starts"
    ),
    "a relative log directory": (replaced("/output/runs", "runs"), 8, "tensorboard.logdir", "begins with"),
    "a folder in no volume": (replaced("/output/notebooks", "/home"), 10, FOLDER, "a path in a volume of the job"),
    "a folder that is only read": (replaced("/output/notebooks", "/data/n"), 10, FOLDER, "which is readOnly"),
    "a folder of a ConfigMap": (replaced("/output/notebooks", "/conf/n"), 10, FOLDER, "which is read-only"),
    "a password": (
        replaced("passwordFrom: {env: PASSWORD}", "password: hush"), 11, "jupyter.password",
        "do not write a password in a job file",
    ),
    "a password of a hub": (replaced("users: [ana, ben]", "password: hush"), 13, "hub.password", "do not write"),
    "no source": (replaced("{env: PASSWORD}", "{}"), 11, SOURCE, "found no source, expected exactly"),
    "two sources": (replaced("env: PASSWORD", "env: A, file: b"), 11, SOURCE, "found env and file, expected exactly"),
    "a misspelt source": (replaced("env: PASSWORD", "envv: A"), 11, f"{SOURCE}.envv", 'Did you mean "env"?'),
    "no variable": (replaced("env: PASSWORD", 'env: "hush hush"'), 11, f"{SOURCE}.env", "not the password itself"),
    "no file": (replaced("env: PASSWORD", 'file: "a\\0b"'), 11, f"{SOURCE}.file", "expected the path of a file"),
    "no Secret": (replaced("env: PASSWORD", "secret: My_Secret"), 11, f"{SOURCE}.secret", "the name of an object"),
    "an empty user": (replaced("ana, ben", "ana, ''"), 13, f"{USERS}[1]", "1 to 64 characters"),
    "a user with a slash": (replaced("ana, ben", "ana, ../x"), 13, f"{USERS}[1]", 'without spaces and "/"'),
    "a user with a space": (replaced("ana, ben", "ana, b n"), 13, f"{USERS}[1]", 'without spaces and "/"'),
    "a user with a bell": (replaced("ana, ben", 'ana, "b\\a"'), 13, f"{USERS}[1]", 'without spaces and "/"'),
    "a long user": (replaced("ana, ben", f"ana, {'b' * 65}"), 13, f"{USERS}[1]", "1 to 64 characters"),
    "a user twice": (replaced("ana, ben", "ana, Ana"), 13, f"{USERS}[1]", "which is already in line 13"),
    "an admin twice": (replaced("admins: [ana]", "admins: [ana, ana]"), 14, "hub.admins[1]",
        "which is already in line 14"),
    "an admin who is not a user": (replaced("admins: [ana]", "admins: [eve]"), 14, "hub.admins[0]", "is not in users"),
    "no Python": (replaced("assert 1 is 1", "if:"), 15, CONFIG,
        "invalid Python in line 2 of the config: invalid syntax"),
    "a NUL": (
        replaced("config: |\n    c.Spawner.debug = True\n    assert 1 is 1\n", 'config: "a\\0b"\n'), 15, CONFIG,
        "Python"
    ),
    "one port for two": (
        replaced("folder: /output/notebooks", "port: 6006"), 10, "jupyter.port", "also the port of tensorboard"
    ),
    "a port of another's default": (
        replaced("users: [ana, ben]", "port: 8888").replace("  admins: [ana]\n", ""), 13, "hub.port",
        "also the port of jupyter",
    ),
    "a port that the hub has itself": (
        replaced("users: [ana, ben]", "port: 8081").replace("  admins: [ana]\n", ""), 13, "hub.port", "internal API"
    ),
    "a long name": (
        replaced("name: digits", f"name: {LONG}"), 1, "name", "with tensorboard, a name has at most 51 characters"
    ),
    "an image with a space": (
        replaced("folder: /output/notebooks", "image: a b"), 10, "jupyter.image", "without spaces"
    ),
    "an image of users with a space": (
        replaced("users: [ana, ben]", "userImage: a b").replace("  admins: [ana]\n", ""), 13, "hub.userImage", "without"
    ),
    "too little memory": (
        replaced("folder: /output/notebooks", "resources: {memory: 4}"), 10, "jupyter.resources.memory",
        "Did you mean 4Gi?",
    ),
    "no CPU": (replaced("folder: /output/notebooks", "resources: {cpus: 0}"), 10, "jupyter.resources.cpus", "above 0"),
    "no account": (
        replaced("folder: /output/notebooks", "serviceAccount: A B"), 10, "jupyter.serviceAccount", "name of an object"
    ),
    "a type of Service": (
        replaced("folder: /output/notebooks", "service: Ingress"), 10, "jupyter.service",
        "one of LoadBalancer, NodePort"
    ),
    "a Service of the job": (
        replaced("{logdir: /output/runs}", "{logdir: /output/runs, name: digits}"), 8, "tensorboard.name",
        'which is also the name of another Service of the job: choose another name, such as "digits-tensorboard"',
    ),
    "a job that is called as the Service is": (
        replaced("name: digits", "name: tensorboard"), 8, "tensorboard.name", "another Service of the job"
    ),
    "a Service with a digit first": (
        replaced("{logdir: /output/runs}", "{logdir: /output/runs, name: 1a}"), 8, "tensorboard.name",
        "starts with a letter"
    ),
}  # fmt: skip


def test_valid_companions_have_no_diagnostics() -> None:
    assert diagnostics_of(VALID) == []


@pytest.mark.parametrize(("text", "line", "path", "words"), INVALID.values(), ids=INVALID)
def test_one_mistake_is_one_error(text: str, line: int, path: str, words: str) -> None:
    (diagnostic,) = diagnostics_of(text)
    assert (diagnostic.line, diagnostic.path) == (line, path)
    assert words in diagnostic.message
    assert diagnostic.is_error


@pytest.mark.parametrize("text", ["password: hush", "passwordFrom: {env: 'hush hush'}"])
def test_password_is_not_printed(text: str) -> None:
    (diagnostic,) = diagnostics_of(replaced("passwordFrom: {env: PASSWORD}", text))
    assert "hush" not in str(diagnostic)


VALID_VARIANTS = {
    "none": "name: a\ncommand: b\nroles: {w: {}}",
    "all defaults": "name: a\ncommand: b\nroles: {w: {}}\nvolumes: {o: {pvc: o, at: /output}}\n"
    "tensorboard: {}\njupyter: {}\nhub: {}",
    "admins alone": replaced("  users: [ana, ben]\n", ""),
    "an empty folder": replaced("folder: /output/notebooks", 'folder: ""'),
    "a Secret": replaced("env: PASSWORD", "secret: my-secret"),
    "a file": replaced("env: PASSWORD", "file: ~/my password.txt"),
    "a name that is just short enough": replaced("name: digits", f"name: {'x' * 51}"),
    "users of all kinds": replaced("ana, ben", "ana, ben@example.com, émile, o'neil"),
}


@pytest.mark.parametrize("text", VALID_VARIANTS.values(), ids=VALID_VARIANTS)
def test_valid_variant_has_no_diagnostics(text: str) -> None:
    assert diagnostics_of(text) == []
