"""Frameworks whose tasks are shell scripts."""

import os
from typing import Any, Final

from operated import jobs

from conformance.client import Json

IMAGE: Final = os.environ.get("WINDLASS_TEST_IMAGE", "windlass/test:1")
"""The image with a shell, coreutils and python3."""

FOREVER: Final = "trap 'exit 0' TERM; sleep 100000 & wait"
"""A script that ends on SIGTERM."""


def role(name: str = "worker", tasks: int = 1, script: str = "true", **more: Any) -> Json:
    """Return a role. `more` are arguments of `operated.jobs.role`, or pod spec fields in `pod_spec`."""
    spec = more.pop("pod_spec", {})
    return jobs.role(name, tasks, pod=template(script, **spec), **more)


def template(script: str, **spec: Any) -> Json:
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        **spec.pop("container", {}),
    }
    return {
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "containers": [container],
            **spec,
        }
    }


framework = jobs.framework
