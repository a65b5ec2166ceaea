"""The companions of a job file: what is said about what is wrong in them, and where."""

import textwrap

import pytest

from windlass.jobfile import reader
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import parse as yaml_parse

GOOD = textwrap.dedent(
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


def faults_of(text: str) -> list[Diagnostic]:
    (document,) = yaml_parse.parse(text.encode()).documents
    return [*document.diagnostics, *reader.check(document.root, "")]


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


LONG = "x" * 55
FOLDER, SOURCE, USERS, CONFIG = "jupyter.folder", "jupyter.passwordFrom", "hub.users", "hub.config"
BAD: dict[str, tuple[str, int, str, str]] = {
    # text, line, path, words of the message
    "nothing": (changed("{logdir: /output/runs}", ""), 8, "tensorboard", "write tensorboard: {} for the defaults"),
    "something else": (changed("{logdir: /output/runs}", "true"), 8, "tensorboard", "expected a mapping"),
    "a misspelt field": (changed("logdir:", "logDir:"), 8, "tensorboard.logDir", 'Did you mean "logdir"?'),
    "a log directory in no volume": (
        changed("/output/runs", "/runs"), 8, "tensorboard.logdir", "in a volume of the job: /data, /output"
    ),
    "the usual one in no volume": (
        changed("at: /output", "at: /out").replace("/output", "/out").replace("logdir: /out/runs", ""), 8,
        "tensorboard.logdir",
        'the default /output is invalid: found "/output", expected a path in a volume of the job: /data',
    ),
    "a log directory of each task": (
        changed("/output/runs", "/scratch/a"), 8, "tensorboard.logdir", "which is empty when a task starts"
    ),
    "a relative log directory": (changed("/output/runs", "runs"), 8, "tensorboard.logdir", "begins with"),
    "a folder in no volume": (changed("/output/notebooks", "/home"), 10, FOLDER, "a path in a volume of the job"),
    "a folder that is only read": (changed("/output/notebooks", "/data/n"), 10, FOLDER, "which is readOnly"),
    "a folder of a ConfigMap": (changed("/output/notebooks", "/conf/n"), 10, FOLDER, "which is read-only"),
    "a password": (
        changed("passwordFrom: {env: PASSWORD}", "password: hush"), 11, "jupyter.password",
        "do not write a password in a job file",
    ),
    "a password of a hub": (changed("users: [ana, ben]", "password: hush"), 13, "hub.password", "do not write"),
    "no source": (changed("{env: PASSWORD}", "{}"), 11, SOURCE, "found no source, expected exactly"),
    "two sources": (changed("env: PASSWORD", "env: A, file: b"), 11, SOURCE, "found env and file, expected exactly"),
    "a misspelt source": (changed("env: PASSWORD", "envv: A"), 11, f"{SOURCE}.envv", 'Did you mean "env"?'),
    "no variable": (changed("env: PASSWORD", 'env: "hush hush"'), 11, f"{SOURCE}.env", "not the password itself"),
    "no file": (changed("env: PASSWORD", 'file: "a\\0b"'), 11, f"{SOURCE}.file", "expected the path of a file"),
    "no Secret": (changed("env: PASSWORD", "secret: My_Secret"), 11, f"{SOURCE}.secret", "the name of an object"),
    "an empty user": (changed("ana, ben", "ana, ''"), 13, f"{USERS}[1]", "1 to 64 characters"),
    "a user with a slash": (changed("ana, ben", "ana, ../x"), 13, f"{USERS}[1]", 'without spaces and "/"'),
    "a user with a space": (changed("ana, ben", "ana, b n"), 13, f"{USERS}[1]", 'without spaces and "/"'),
    "a user with a bell": (changed("ana, ben", 'ana, "b\\a"'), 13, f"{USERS}[1]", 'without spaces and "/"'),
    "a long user": (changed("ana, ben", f"ana, {'b' * 65}"), 13, f"{USERS}[1]", "1 to 64 characters"),
    "a user twice": (changed("ana, ben", "ana, Ana"), 13, f"{USERS}[1]", "which is already in line 13"),
    "an admin twice": (changed("admins: [ana]", "admins: [ana, ana]"), 14, "hub.admins[1]",
        "which is already in line 14"),
    "an admin who is no user": (changed("admins: [ana]", "admins: [eve]"), 14, "hub.admins[0]", "is not in users"),
    "no Python": (changed("assert 1 is 1", "if:"), 15, CONFIG,
        "invalid Python in line 2 of the config: invalid syntax"),
    "a NUL": (
        changed("config: |\n    c.Spawner.debug = True\n    assert 1 is 1\n", 'config: "a\\0b"\n'), 15, CONFIG, "Python"
    ),
    "one port for two": (
        changed("folder: /output/notebooks", "port: 6006"), 10, "jupyter.port", "also the port of tensorboard"
    ),
    "a port of another's default": (
        changed("users: [ana, ben]", "port: 8888").replace("  admins: [ana]\n", ""), 13, "hub.port",
        "also the port of jupyter",
    ),
    "a port that the hub has itself": (
        changed("users: [ana, ben]", "port: 8081").replace("  admins: [ana]\n", ""), 13, "hub.port", "internal API"
    ),
    "a long name": (
        changed("name: digits", f"name: {LONG}"), 1, "name", "with tensorboard, a name has at most 51 characters"
    ),
    "an image with a space": (
        changed("folder: /output/notebooks", "image: a b"), 10, "jupyter.image", "without spaces"
    ),
    "an image of users with a space": (
        changed("users: [ana, ben]", "userImage: a b").replace("  admins: [ana]\n", ""), 13, "hub.userImage", "without"
    ),
    "too little memory": (
        changed("folder: /output/notebooks", "resources: {memory: 4}"), 10, "jupyter.resources.memory",
        "Did you mean 4Gi?",
    ),
    "no CPU": (changed("folder: /output/notebooks", "resources: {cpus: 0}"), 10, "jupyter.resources.cpus", "above 0"),
    "no account": (
        changed("folder: /output/notebooks", "serviceAccount: A B"), 10, "jupyter.serviceAccount", "name of an object"
    ),
    "a type of Service": (
        changed("folder: /output/notebooks", "service: Ingress"), 10, "jupyter.service", "one of LoadBalancer, NodePort"
    ),
    "a Service of the job": (
        changed("{logdir: /output/runs}", "{logdir: /output/runs, name: digits}"), 8, "tensorboard.name",
        'which is also the name of another Service of the job: choose another name, such as "digits-tensorboard"',
    ),
    "a job that is called as the Service is": (
        changed("name: digits", "name: tensorboard"), 8, "tensorboard.name", "another Service of the job"
    ),
    "a Service with a digit first": (
        changed("{logdir: /output/runs}", "{logdir: /output/runs, name: 1a}"), 8, "tensorboard.name",
        "starts with a letter"
    ),
}  # fmt: skip


def test_a_good_one() -> None:
    assert faults_of(GOOD) == []


@pytest.mark.parametrize(("text", "line", "path", "words"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_said_once(text: str, line: int, path: str, words: str) -> None:
    (diagnostic,) = faults_of(text)
    assert (diagnostic.line, diagnostic.path) == (line, path)
    assert words in diagnostic.message
    assert diagnostic.is_error


@pytest.mark.parametrize("text", ["password: hush", "passwordFrom: {env: 'hush hush'}"])
def test_a_password_is_not_printed(text: str) -> None:
    (diagnostic,) = faults_of(changed("passwordFrom: {env: PASSWORD}", text))
    assert "hush" not in str(diagnostic)


GOOD_TOO = {
    "none": "name: a\ncommand: b\nroles: {w: {}}",
    "all defaults": "name: a\ncommand: b\nroles: {w: {}}\nvolumes: {o: {pvc: o, at: /output}}\n"
    "tensorboard: {}\njupyter: {}\nhub: {}",
    "admins alone": changed("  users: [ana, ben]\n", ""),
    "an empty folder": changed("folder: /output/notebooks", 'folder: ""'),
    "a Secret": changed("env: PASSWORD", "secret: my-secret"),
    "a file": changed("env: PASSWORD", "file: ~/my password.txt"),
    "a name that is just short enough": changed("name: digits", f"name: {'x' * 51}"),
    "users of all kinds": changed("ana, ben", "ana, ben@example.com, émile, o'neil"),
}


@pytest.mark.parametrize("text", GOOD_TOO.values(), ids=GOOD_TOO)
def test_these_are_good_too(text: str) -> None:
    assert faults_of(text) == []
