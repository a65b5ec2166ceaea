"""Create a ConfigMap from files, like `kubectl create configmap --from-file`."""

import base64
import re
from pathlib import Path

from windlass.model.base import Json

MAX_BYTES = 1024 * 1024
"""Size limit of a ConfigMap."""

_is_valid_key = re.compile(r"[-._a-zA-Z0-9]{1,253}").fullmatch


def config_map(name: str, namespace: str, path: Path) -> Json:
    """Return a ConfigMap with a file, or with the files directly in a folder. Raises OSError and ValueError."""
    within = [path] if path.is_file() else sorted(each for each in path.iterdir() if each.is_file())
    files = [file for file in within if _is_valid_key(file.name)]
    if not files:
        raise ValueError(f"{path} contains no file whose name is valid in a ConfigMap")
    # Checked before anything is read: the folder may contain training data.
    size = sum(file.stat().st_size for file in files)
    if size > MAX_BYTES:
        raise ValueError(
            f"{path} has {size} bytes, but a ConfigMap has at most {MAX_BYTES}: use a volume instead"
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
