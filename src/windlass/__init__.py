"""Windlass launches distributed training, on one laptop and on Kubernetes, with one controller.

from windlass import Client, Job, Role

with Client() as client:
    client.submit(Job(name="digits", command="python train.py", roles={"worker": Role(tasks=2)}))
    print(client.wait("digits").state)
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_MODULES = {
    "AsyncClient": "windlass.client.sdk",
    "Client": "windlass.client.blocking",
    "ClientError": "windlass.client.errors",
    "CompanionView": "windlass.client.companions.status",
    "Elastic": "windlass.model.job",
    "Gpus": "windlass.model.resources",
    "Hub": "windlass.model.companions",
    "Job": "windlass.model.job",
    "JobState": "windlass.client.views",
    "JobView": "windlass.client.views",
    "Jupyter": "windlass.model.companions",
    "PasswordFrom": "windlass.model.companions",
    "Resources": "windlass.model.resources",
    "Retry": "windlass.model.job",
    "Role": "windlass.model.job",
    "Runtime": "windlass.model.feature_annotations",
    "TaskState": "windlass.client.views",
    "TaskView": "windlass.client.views",
    "TensorBoard": "windlass.model.companions",
    "Volume": "windlass.model.job",
    "load": "windlass.client.submit.sources",
}
"""The module of each public name, imported on first use, so that `windlass --help` does not import an HTTP client.
`__init__.pyi` has the same names for type checkers."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'windlass' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
