"""The arguments with which a container's process starts, and the folder in which it does."""

import posixpath
from collections.abc import Mapping

from windlass.localcluster.kubelet.containers import errors, expansion
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.model.base import Json


def argv(container: Json, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Images are not pulled, so no ENTRYPOINT stands in for a command, and arguments alone are a whole command."""
    words = (*(container.get("command") or ()), *(container.get("args") or ()))
    name = container["name"]
    if not words:
        message = (
            f'no command specified: images are not pulled here, so that container "{name}" has no entrypoint;'
            f" give it a command"
        )
        raise SetupError(message, errors.CREATE_ERROR)
    expanded = tuple(expansion.expand(word, environment) for word in words)
    if any("\0" in word for word in expanded):
        message = f'the command of container "{name}" holds a NUL byte, which no process can be given'
        raise SetupError(message, errors.CREATE_ERROR)
    return expanded


def working_directory(container: Json) -> str:
    """Taken as it is written: variables are not expanded in it."""
    written: str = container.get("workingDir") or "/"
    if not written.startswith("/"):
        message = f'workingDir "{written}" of container "{container["name"]}" is not an absolute path'
        raise SetupError(message, errors.CREATE_ERROR)
    return posixpath.normpath(f"/{written.lstrip('/')}")
