"""Diagnostics and conversion of a job file."""

import textwrap
from typing import Any

import pytest
import yaml

from windlass.jobfile import reader
from windlass.model.feature_annotations import Runtime
from windlass.model.job import CephFs, Job, Nfs, Retry, Role, Volume
from windlass.model.resources import Resources
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

VALID = textwrap.dedent(
    """\
    name: digits
    runtime: tensorflow
    image: tf:1
    command: python train.py
    env: {STEPS: 3}
    volumes:
      data: {at: /data, hostPath: /srv/data}
    resources: {cpus: 2, memory: 4Gi}
    roles:
      ps: {tasks: 2}
      worker: {tasks: 2}
    """
)


def node_of(text: str) -> tree.Node:
    (document,) = yaml_parse.parse(text.encode()).documents
    return document.root


def diagnostics_of(text: str) -> list[Diagnostic]:
    return list(reader.check(node_of(text), ""))


def replaced(old: str, new: str) -> str:
    assert VALID.count(old) == 1, old
    return VALID.replace(old, new)


def added(text: str) -> str:
    return VALID + textwrap.dedent(text)


def test_valid_job_has_no_diagnostics() -> None:
    assert diagnostics_of(VALID) == []


LONG = "x" * 63
INVALID: dict[str, tuple[str, int, str, str]] = {
    # text, line, path, words of the message
    "an unknown field": (added("rols: {}"), 12, "rols", 'unknown field "rols". Did you mean "roles"?'),
    "an unknown field of a role": (
        replaced("ps: {tasks", "ps: {task"), 10, "roles.ps.task", 'unknown field "task". Did you mean "tasks"?',
    ),
    "no name": (replaced("name: digits\n", ""), 1, "", 'missing required field "name"'),
    "a name of capitals": (replaced("digits", "Digits"), 1, "name", "expected a DNS label"),
    "a name with a dot": (replaced("digits", "a.b"), 1, "name", "expected a DNS label"),
    "a name that begins with a digit": (replaced("digits", "1a"), 1, "name", "a name that starts with a letter"),
    "a long name": (replaced("digits", "x" * 64), 1, "name", "1 to 63"),
    "a namespace": (added("namespace: A_B"), 12, "namespace", "expected a DNS label"),
    "an unknown runtime": (replaced("tensorflow", "tensorflwo"), 2, "runtime", 'Did you mean "tensorflow"?'),
    "an image with spaces": (replaced("tf:1", "a b"), 3, "image", "without spaces"),
    "an empty command": (replaced("python train.py", "''"), 4, "command", "the command is empty"),
    "an empty list": (replaced("python train.py", "[]"), 4, "command", "the command is empty"),
    "a mapping as a command": (replaced("python train.py", "{a: b}"), 4, "command", "a string, or a list"),
    "a number in a command": (replaced("python train.py", "[python, 3]"), 4, "command[1]", "put it in quotes"),
    "an open quotation": (replaced("train.py", "'train.py"), 4, "command", "close the quotation"),
    "a variable's name": (replaced("STEPS", "1X"), 5, "env[\"1X\"]", "the name of a variable"),
    "a variable without a value": (replaced("STEPS: 3", "STEPS: "), 5, "env.STEPS", "found null, expected a value"),
    "a list as a value": (replaced("STEPS: 3", "STEPS: [3]"), 5, "env.STEPS", "found a list"),
    "an unknown source": (replaced("3}", "{secretKey: a}}"), 5, "env.STEPS.secretKey", '"secretKeyRef"?'),
    "no source": (replaced("3}", "{}}"), 5, "env.STEPS", "found 0 sources"),
    "no roles": (VALID.partition("roles:")[0], 1, "roles", 'missing required field "roles"'),
    "an empty role list": (VALID.partition("roles:")[0] + "roles: {}", 9, "roles", "no roles: add at least one"),
    "roles as a list": (VALID.partition("roles:")[0] + "roles: [a]", 9, "roles", "expected a mapping"),
    "a role that is nothing": (replaced("ps: {tasks: 2}", "ps:"), 10, "roles.ps", "e.g. ps: {tasks: 2}"),
    "a role whose fields are not indented": (
        replaced("ps: {tasks: 2}", "ps:\n  tasks: 2\n  command: [sh]"), 10, "roles.ps",
        "the role is empty: indent tasks and command below ps, by two more spaces",
    ),
    "roles that are not indented": (
        VALID.partition("roles:")[0] + "worker: {tasks: 2}", 9, "worker",
        'unknown field "worker". Did you mean roles: {worker: …}, i.e. the role indented below roles?',
    ),
    "cmd": (replaced("command", "cmd"), 4, "cmd", 'unknown field "cmd". Did you mean "command"?'),
    "replicas": (replaced("ps: {tasks", "ps: {replicas"), 10, "roles.ps.replicas", 'Did you mean "tasks"?'),
    "instances": (replaced("ps: {tasks", "ps: {instances"), 10, "roles.ps.instances", 'Did you mean "tasks"?'),
    "nodes": (replaced("ps: {tasks", "ps: {nodes"), 10, "roles.ps.nodes", 'Did you mean "tasks"?'),
    "nodes of the job": (added("nodes: 4"), 12, "nodes", "Did you mean roles: {worker: {tasks: 4}}?"),
    "instances without roles": (
        VALID.partition("roles:")[0] + "instances: 3", 9, "instances", "Did you mean roles: {worker: {tasks: 3}}?",
    ),
    "gpus": (added("gpus: 2"), 12, "gpus", 'unknown field "gpus". Did you mean resources: {gpus: 2}?'),
    "gpus of a role": (
        replaced("ps: {tasks: 2", "ps: {tasks: 2, gpus: 1"), 10, "roles.ps.gpus", "Did you mean resources: {gpus: 1}?",
    ),
    "script": (
        replaced("command: python train.py", "script: main.py"), 4, "script", "Did you mean command: python main.py?",
    ),
    "args": (
        added("args: [--lr, 0.1]"), 12, "args", "Did you mean command: python train.py --lr 0.1?",
    ),
    "a name with an underscore": (
        replaced("digits", "my_job"), 1, "name", 'with a letter or digit at both ends. Did you mean "my-job"?',
    ),
    "tasks of the only role in quotes": (
        VALID.partition("roles:")[0] + 'roles: {worker: {tasks: "2"}}', 9, "roles.worker.tasks", "remove the quotes",
    ),
    "a negative retry": (added("retry: -1"), 12, "retry", "an integer from 0"),
    "a retry in words": (added("retry: often"), 12, "retry", "a number of restarts, or a mapping"),
    "a role's name": (replaced("ps:", "my-ps:"), 10, "roles.my-ps", "without hyphens"),
    "a role's long name": (replaced("ps:", f"{LONG}:"), 10, f"roles.{'x' * 59}…", "has more than 63 characters"),
    "no tasks": (VALID.replace("tasks: 2", "tasks: 0"), 10, "roles", "no role has tasks, so nothing would run"),
    "too many tasks": (VALID.replace("tasks: 2", "tasks: 9000"), 10, "roles", "at most 16000"),
    "a negative number": (replaced("ps: {tasks: 2}", "ps: {tasks: -1}"), 10, "roles.ps.tasks", "from 0 to 10000"),
    "tasks in quotes": (replaced("ps: {tasks: 2}", 'ps: {tasks: "2"}'), 10, "roles.ps.tasks", "remove the quotes"),
    "two kinds of volume": (replaced("hostPath:", "pvc: x, hostPath:"), 7, "volumes.data", "found hostPath and pvc"),
    "no kind of volume": (replaced(", hostPath: /srv/data", ""), 7, "volumes.data",
                          "found no source, expected exactly one of hostPath, share"),
    "a misspelt kind": (replaced("hostPath", "hostPaht"), 7, "volumes.data.hostPaht", '"hostPath"?'),
    "a volume at nowhere": (replaced("at: /data, ", ""), 7, "volumes.data", 'missing required field "at"'),
    "a volume at a relative path": (replaced("at: /data", "at: data"), 7, "volumes.data.at", 'begins with "/"'),
    "a volume at the root": (replaced("at: /data", "at: //"), 7, "volumes.data.at", 'begins with "/"'),
    "a volume above": (replaced("at: /data", "at: /data/.."), 7, "volumes.data.at", 'without ".."'),
    "a relative hostPath": (replaced("/srv/data", "srv"), 7, "volumes.data.hostPath", 'begins with "/"'),
    "two volumes at one path, in one line": (
        replaced("  data: {at: /data, hostPath: /srv/data}", "  {a: {at: /data/, pvc: a}, data: {at: /data, pvc: b}}"),
        7, "volumes.data.at",
        'found "/data", which is also the path of the volume in line 7: give each volume its own path',
    ),
    "two volumes at one path": (
        replaced("  data:", "  more: {at: /data/, emptyDir: {}}\n  data:"), 8, "volumes.data.at", "in line 7: give",
    ),
    "a sub path outside": (replaced("at: /data", "at: /d, subPath: ../x"), 7, "volumes.data.subPath", "inside"),
    "a volume's name": (replaced("  data:", "  Data:"), 7, "volumes.Data", "a DNS label"),
    "a volume of ours": (replaced("  data:", "  windlass-x:"), 7, "volumes.windlass-x", "are reserved"),
    "a claim's name": (replaced("hostPath: /srv/data", "pvc: A/b"), 7, "volumes.data.pvc", "the name of an object"),
    "an emptyDir's field": (
        replaced("hostPath: /srv/data", "emptyDir: {sizeLimt: 1Gi}"),
        7, "volumes.data.emptyDir.sizeLimt",
        'unknown field "sizeLimt" of EmptyDirVolumeSource. Did you mean "sizeLimit"?',
    ),
    "a quantity": (replaced("4Gi", "four"), 8, "resources.memory", "a quantity above 0"),
    "gigabytes": (replaced("4Gi", "8GB"), 8, "resources.memory", 'found the string "8GB", expected a quantity above 0'),
    "gigabytes that are gibibytes": (replaced("4Gi", "8 gib"), 8, "resources.memory", "Did you mean 8Gi?"),
    "gigabytes with a B": (replaced("4Gi", "8GB"), 8, "resources.memory", "Did you mean 8G?"),
    "a negative quantity": (replaced("cpus: 2", "cpus: -2"), 8, "resources.cpus", "a quantity above 0"),
    "nothing of it": (replaced("cpus: 2", "cpus: 0.0"), 8, "resources.cpus", "a quantity above 0"),
    "bytes that are gigabytes": (replaced("4Gi", "4"), 8, "resources.memory", "Did you mean 4Gi?"),
    "half a GPU": (replaced("cpus: 2", "gpus: 0.5"), 8, "resources.gpus", "an integer of at least 0"),
    "negative GPUs": (replaced("cpus: 2", "gpus: -1"), 8, "resources.gpus", "an integer of at least 0"),
    "sharing alone": (replaced("cpus: 2", "gpus: {shared: 1}"), 8, "resources.gpus.shared", "from 2 to 100"),
    "another resource": (
        replaced("cpus: 2", "gpus: {resource: example.com/gpu}"),
        8,
        "resources.gpus.resource",
        "a MIG instance such as nvidia.com/mig-1g.10gb",
    ),
    "a boolean quantity": (replaced("cpus: 2", "cpus: true"), 8, "resources.cpus", "a Kubernetes quantity"),
    "a duration": (added("ttl: 7 days"), 12, "ttl", "a duration such as"),
    "a negative duration": (added("ttl: -5"), 12, "ttl", "a duration such as"),
    "a duration of another type": (added("ttl: [5]"), 12, "ttl", "a duration: seconds, or e.g."),
    "no time at all": (added("activeDeadline: 0s"), 12, "activeDeadline", "a duration above 0"),
    "a port": (added("port: 70000"), 12, "port", "from 1 to 65535"),
    "a label's value": (added("labels: {a: b c}"), 12, "labels.a", "at most 63 letters"),
    "a label that is a number": (added("labels: {a: 1}"), 12, "labels.a", "put it in quotes"),
    "a label's key": (added("labels: {'a b': c}"), 12, 'labels["a b"]', "a name such as team"),
    "our own annotation": (
        added("annotations: {windlass.dev/runtime: jax}"), 12, 'annotations["windlass.dev/runtime"]', "use runtime",
    ),
    "a Secret's name": (added("imagePullSecrets: [ok, B_C]"), 12, "imagePullSecrets[1]", "the name of an object"),
    "a toleration's field": (
        added("tolerations: [{kee: a}]"), 12, "tolerations[0].kee",
        'unknown field "kee" of Toleration. Did you mean "key"?',
    ),
    "an envFrom's field": (
        added("envFrom: [{secretRf: {}}]"), 12, "envFrom[0].secretRf",
        'unknown field "secretRf" of EnvFromSource. Did you mean "secretRef"?',
    ),
    "a retry": (added("retry: {jobs: 1}"), 12, "retry.jobs", '"job"?'),
    "a field inside pod": (
        added("pod:\n  spec:\n    containers:\n    - name: tensorflow\n      olumeMounts: []\n"),
        16, "pod.spec.containers[0].olumeMounts",
        'unknown field "olumeMounts" of Container. Did you mean "volumeMounts"?',
    ),
    "a type inside a role's pod": (
        replaced("ps: {tasks: 2}", "ps: {tasks: 2, pod: {spec: {hostNetwork: 1}}}"),
        10, "roles.ps.pod.spec.hostNetwork", "true or false",
    ),
    "a container of a pod without a name": (
        added("pod: {spec: {containers: [{image: a}]}}"), 12, "pod.spec.containers[0]",
        'missing required field "name" of Container',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "path", "words"), INVALID.values(), ids=INVALID.keys())
def test_one_mistake_is_one_diagnostic(text: str, line: int, path: str, words: str) -> None:
    found = diagnostics_of(text)
    assert [(diagnostic.line, diagnostic.path) for diagnostic in found] == [(line, path)], found
    assert words in found[0].message


def test_retry_may_be_a_number() -> None:
    assert reader.job_of(node_of(added("retry: 3"))).retries == Retry(job=3)


JOBS: dict[str, tuple[Any, bool]] = {
    "a job": ({"name": "a", "roles": {}}, True),
    "a job that has something of a Framework": ({"name": "a", "metadata": {}}, True),
    "a misspelt job": ({"naem": "a"}, True),
    "a Framework": ({"apiVersion": "v1", "kind": "Framework"}, False),
    "a Framework without its kind": ({"apiVersion": "v1", "name": "x"}, False),
    "a Framework without both": ({"metadata": {"name": "a"}, "spec": {}}, False),
    "nothing": ({}, False),
    "a list": ([{"name": "a"}], False),
    "a text": ("name", False),
}


@pytest.mark.parametrize(("value", "is_one"), JOBS.values(), ids=JOBS.keys())
def test_is_job(value: Any, is_one: bool) -> None:
    assert reader.is_job(node_of(yaml.safe_dump(value))) is is_one


def test_job_is_converted() -> None:
    text = """
        name: digits
        namespace: null
        runtime: jax
        command: [python, train.py]
        env: {A: 1, B: 0.5, C: true, D: {fieldRef: {fieldPath: metadata.name}}}
        resources: {cpus: 500m, memory: 1e9, gpus: 2}
        volumes:
          a: {at: /a, nfs: {server: s, path: /p}}
          b: {at: /b, cephfs: {clusterID: c, fsName: f, secret: s}}
          c: {at: /c, emptyDir: {}}
        retry: {job: 2}
        ttl: 1d
        pod: {spec: {hostNetwork: null}}
        roles:
          worker: {tasks: 3, image: null, pod: {spec: {dnsPolicy: null}}}
    """
    job = reader.job_of(node_of(textwrap.dedent(text)))

    assert job == Job(
        name="digits",
        runtime=Runtime.JAX,
        command=("python", "train.py"),
        env={"A": 1, "B": 0.5, "C": True, "D": {"fieldRef": {"fieldPath": "metadata.name"}}},
        resources=Resources(cpus="500m", memory=1e9, gpus=2),
        volumes={
            "a": Volume(at="/a", nfs=Nfs(server="s", path="/p")),
            "b": Volume(at="/b", cephfs=CephFs(cluster_id="c", fs_name="f", secret="s")),  # noqa: S106 — a name
            "c": Volume(at="/c", empty_dir={}),
        },
        retry=Retry(job=2),
        ttl="1d",
        pod={"spec": {"hostNetwork": None}},
        roles={"worker": Role(tasks=3, pod={"spec": {"dnsPolicy": None}})},
    )
