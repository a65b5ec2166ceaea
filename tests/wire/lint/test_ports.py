"""Warnings about undeclared ports and names of other Frameworks in commands. Other numbers are ignored."""

from typing import Any

import msgspec
import pytest

from windlass.wire.lint import ports as lint_ports
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import tree

OWN = frozenset({"digits", "worker", "ps"})


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("export ps_port=46867 && export worker_port=46866 && source x", (46867, 46866)),
        ("--port 46866", (46866,)),
        ("--port=8080", (8080,)),
        ("MASTER_PORT=29500", (29500,)),
        ("masterPort: 23456", (23456,)),
        ("--ps_hosts=$ps_hosts:49867 --worker_hosts=${worker_hosts}:49866", (49867, 49866)),
        ("tcp://$(hostname -i):29500", (29500,)),
        ("host:2222", (2222,)),
        ("--ps_hosts=ps0:2222,a1:2223", (2222, 2223)),
        ("--ps_hosts b0:2222", (2222,)),
        ("worker-0:2222 digits-ps-0.default.svc:2223", (2222, 2223)),
        ("0.0.0.0:6006 localhost:8888", (6006, 8888)),
        ("$a:2222 $b:2222", (2222,)),
        ("--batch_size=32 --steps 20000", ()),
        ("--report 5555 --import=4444 support: 3333", ()),
        ("12:30 0:1000 a[1:1024]", ()),
        ("http://mlflow.corp:5000 redis:6379 10.0.0.7:2049", ()),
        ("ubuntu:1604 layers:1024", ()),
        ("port=99999 host:0", ()),
        ("${PORT:-8080} host:22:33 host:2222a", ()),
        ("", ()),
    ],
)
def test_used_ports(text: str, ports: tuple[int, ...]) -> None:
    assert lint_ports.used_ports(text, OWN) == ports


def framework(**container: Any) -> tree.Mapping:
    """Return a Framework of a worker with this container and a ps that declares a port."""

    def role(name: str, of_role: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "task": {"pod": {"spec": {"containers": [{"name": "tf", **of_role}]}}}}

    ps = role("ps", {"ports": [{"containerPort": 49867}, {"hostPort": 7000}]})
    content = {"metadata": {"name": "digits"}, "spec": {"taskRoles": [role("worker", container), ps]}}
    root = yaml_parse.parse(msgspec.json.encode(content)).documents[0].root
    assert isinstance(root, tree.Mapping)
    return root


@pytest.mark.parametrize(
    ("container", "path", "words"),
    [
        pytest.param(
            {"args": ["--port", "46867"]},
            "args[1]",
            'Did you mean 49867, which container "tf" of role "ps"',
            id="digit",
        ),
        pytest.param({"args": ["--port=48967"]}, "args[0]", "Did you mean 49867", id="swapped"),
        pytest.param({"args": ["--port=2222"]}, "args[0]", "Add containerPort: 2222", id="far"),
        pytest.param(
            {"env": [{"name": "A_PORT", "value": "2222"}]},
            "env[0].value",
            "port 2222 is not declared",
            id="variable",
        ),
        pytest.param(
            {"command": ["sh", "-c", "framework_name=tf x"]}, "command[2]", "framework_name=digits", id="name"
        ),
        pytest.param(
            {"env": [{"name": "framework_name", "value": "tf"}]},
            "env[0].value",
            'name of this Framework, "digits"',
            id="name variable",
        ),
    ],
)
def test_undeclared_port_or_other_framework_is_reported(
    container: dict[str, Any], path: str, words: str
) -> None:
    (diagnostic,) = lint_ports.check(framework(**container), "")

    assert not diagnostic.is_error
    assert diagnostic.path == f"spec.taskRoles[0].task.pod.spec.containers[0].{path}"
    assert words in diagnostic.message


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"args": ["--port", "49867"]}, id="declared by another role"),
        pytest.param({"args": ["--port=7000"]}, id="host port"),
        pytest.param({"args": ["--port=2222"], "ports": [{"containerPort": 2222}]}, id="declared here"),
        pytest.param({"args": ["--port", "--steps", "2222"]}, id="value of another option"),
        pytest.param(
            {"command": ["framework_name=digits", "framework_name=$NAME", "my_framework_name=x"]}, id="names"
        ),
        pytest.param(
            {"env": [{"name": "STEPS", "value": "2222"}, {"name": "X"}, {"value": 3}]}, id="variables"
        ),
    ],
)
def test_declared_port_or_plain_number_has_no_diagnostics(container: dict[str, Any]) -> None:
    assert list(lint_ports.check(framework(**container), "")) == []
