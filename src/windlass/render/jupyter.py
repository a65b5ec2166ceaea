"""A notebook server behind a password: a Secret, a Deployment and a Service.

The password itself stands in none of them: the Secret has what Jupyter makes of one, from which nobody gets it back.
"""

import hashlib

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.cluster_config import ServiceType
from windlass.render.parts import Part, Piece

ROLE = "jupyter"
CONTAINER = "jupyter"
CONFIG_FOLDER = "/windlass/jupyter"
_VOLUME = "windlass-jupyter"
_START = (
    'if command -v jupyter-lab >/dev/null; then exec jupyter-lab "$@"; else exec jupyter-notebook "$@"; fi'
)
"""Older images have no JupyterLab."""


class Notebook(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Of the Deployment and the Service."""
    namespace: str
    """Empty where it is left open."""
    image: str
    password: str
    port: int
    service_type: ServiceType
    variables: tuple[Json, ...] = ()
    """Of its container, as Kubernetes has them."""


def secret_name(notebook: str) -> str:
    return f"{notebook}-password"


def pieces(notebook: Notebook) -> tuple[Piece, ...]:
    return tuple(
        Piece(Part.JUPYTER, body) for body in (_secret(notebook), _deployment(notebook), _service(notebook))
    )


def hashed(notebook: Notebook) -> str:
    """As Jupyter writes it. The salt follows from what it is for: what is rendered twice is the same twice."""
    from argon2 import low_level

    password = notebook.password.encode()
    salted = b"\0".join((b"windlass", notebook.namespace.encode(), notebook.name.encode(), password))
    encoded = low_level.hash_secret(
        password,
        salt=hashlib.sha256(salted).digest()[:16],
        time_cost=10,
        memory_cost=10240,
        parallelism=8,
        hash_len=32,
        type=low_level.Type.ID,
    )
    return f"argon2:{encoded.decode()}"


def _secret(notebook: Notebook) -> Json:
    """Also for notebooks of before 2021, which read another file."""
    password = hashed(notebook)
    config = {
        "jupyter_server_config.json": {"PasswordIdentityProvider": {"hashed_password": password}},
        "jupyter_notebook_config.json": {"NotebookApp": {"password": password}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(notebook, secret_name(notebook.name)),
        "type": "Opaque",
        "stringData": {file: msgspec.json.encode(content).decode() for file, content in config.items()},
    }


def _deployment(notebook: Notebook) -> Json:
    labels = _labels(notebook)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(notebook, notebook.name),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    # A Service called jupyter would set JUPYTER_PORT, where Jupyter looks for a number.
                    "enableServiceLinks": False,
                    "containers": [_container(notebook)],
                    "volumes": [{"name": _VOLUME, "secret": {"secretName": secret_name(notebook.name)}}],
                },
            },
        },
    }


def _container(notebook: Notebook) -> Json:
    options = ["--ip=0.0.0.0", f"--port={notebook.port}", "--port-retries=0", "--no-browser", "--allow-root"]
    return {
        "name": CONTAINER,
        "image": notebook.image,
        "command": ["/bin/sh", "-c", _START, "jupyter", *options],
        "ports": [{"containerPort": notebook.port}],
        "env": [{"name": "JUPYTER_CONFIG_PATH", "value": CONFIG_FOLDER}, *notebook.variables],
        "readinessProbe": {"httpGet": {"path": "/api", "port": notebook.port}},
        "volumeMounts": [{"name": _VOLUME, "mountPath": CONFIG_FOLDER, "readOnly": True}],
    }


def _service(notebook: Notebook) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(notebook, notebook.name),
        "spec": {
            "type": str(notebook.service_type),
            "selector": _labels(notebook),
            "ports": [{"port": notebook.port, "targetPort": notebook.port}],
        },
    }


def _metadata(notebook: Notebook, name: str) -> Json:
    metadata: Json = {"name": name}
    if notebook.namespace:
        metadata["namespace"] = notebook.namespace
    return {**metadata, "labels": {names.JOB_LABEL: notebook.name}}


def _labels(notebook: Notebook) -> dict[str, str]:
    return {names.JOB_LABEL: notebook.name, names.ROLE_LABEL: ROLE}
