"""A ConfigMap made from files, as `kubectl create configmap --from-file` makes one."""

import base64
import re
from pathlib import Path

from windlass.model.base import Json

MOST_BYTES = 1024 * 1024
"""What Kubernetes lets a ConfigMap hold."""

_is_a_key = re.compile(r"[-._a-zA-Z0-9]{1,253}").fullmatch


def config_map(name: str, namespace: str, path: Path) -> Json:
    """Of a file, or of the files of a folder, without those of folders in it. Raises OSError and ValueError."""
    within = [path] if path.is_file() else sorted(each for each in path.iterdir() if each.is_file())
    files = [file for file in within if _is_a_key(file.name)]
    if not files:
        raise ValueError(f"{path} holds no file that could be in a ConfigMap")
    # Asked before anything is read: somebody may have named a folder of training data.
    size = sum(file.stat().st_size for file in files)
    if size > MOST_BYTES:
        raise ValueError(
            f"{path} holds {size} bytes, and a ConfigMap at most {MOST_BYTES}: mount it as a volume"
        )
    contents = {file.name: file.read_bytes() for file in files}
    made: Json = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    }
    for key, content in contents.items():
        try:
            made.setdefault("data", {})[key] = content.decode()
        except UnicodeDecodeError:
            made.setdefault("binaryData", {})[key] = base64.b64encode(content).decode()
    return made
