"""Pods for tests. A string is a shell script, a list is a command."""

import os
import socket
from typing import Any, Final

from conformance.client import Json

IMAGE: Final = os.environ.get("WINDLASS_TEST_IMAGE", "windlass/test:1")
"""It has a shell, coreutils and python3. An embedded cluster pulls nothing and takes those of the machine."""

FOREVER: Final = "trap 'exit 0' TERM; sleep 100000 & wait"
"""Ends when it is asked to, as the first process of a PID namespace too."""
RESOLVE: Final = """\
import socket, sys, time
for name in sys.argv[1:]:
    while True:
        try:
            print(name, socket.gethostbyname(name), flush=True)
            break
        except OSError:
            time.sleep(0.2)
"""
"""Prints the addresses of the names that it is given, as soon as they have one."""

STUBBORN: Final = "trap '' TERM; echo armed; while true; do sleep 1; done"


def container(run: str | list[str] | None = None, name: str = "main", **fields: Any) -> Json:
    command = {} if run is None else {"command": ["sh", "-c", run] if isinstance(run, str) else run}
    return {"name": name, "image": IMAGE, "imagePullPolicy": "IfNotPresent", **command, **fields}


def pod(name: str, *containers: str | list[str] | Json, metadata: Json | None = None, **spec: Any) -> Json:
    """Never started again and given little time to end, unless `spec` says otherwise."""
    whole = [each if isinstance(each, dict) else container(each) for each in containers or (FOREVER,)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": whole, **spec},
    }


def mount(at: str, volume: str = "data", **fields: Any) -> Json:
    return {"name": volume, "mountPath": at, **fields}


def mounted(run: str | list[str], at: str = "/data", name: str = "main", **fields: Any) -> Json:
    """A container that sees the volume `data`."""
    return container(run, name, volumeMounts=[mount(at)], **fields)


def scratch(name: str = "data", **fields: Any) -> list[Json]:
    return [{"name": name, "emptyDir": fields}]


def host_path(path: str, kind: str = "", name: str = "data") -> list[Json]:
    return [{"name": name, "hostPath": {"path": path, "type": kind}}]


def field(name: str, path: str) -> Json:
    """An environment variable that holds a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def headless_service(name: str, selector: dict[str, str]) -> Json:
    spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


SERVE: Final = """
import http.server, os, sys
address, port, folder = os.environ.get("POD_IP", ""), int(sys.argv[1]), sys.argv[2]
os.chdir(folder)
http.server.ThreadingHTTPServer((address, port), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def web_server(port: int, folder: str = "/data", **fields: Any) -> Json:
    """Serves what is in the volume `data`, at the pod's own address."""
    run = ["python3", "-c", SERVE, str(port), folder]
    own_address = {"env": [field("POD_IP", "status.podIP")], "ports": [{"containerPort": port}]}
    return mounted(run, folder, **{**own_address, **fields})


def free_port() -> int:
    """Return a port that is free on this machine, since pods may share its network."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])
