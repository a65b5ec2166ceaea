"""Expand and abbreviate paths from the command line and from job files."""

import os
from pathlib import Path

from windlass.client.errors import NoClusterError
from windlass.kubeapi import local_cluster
from windlass.kubeapi.errors import AccessError


def absolute(path: str, folder: Path) -> Path:
    """Return the absolute path of a path relative to `folder`. Symbolic links are kept."""
    return Path(os.path.abspath(folder / expanded(path)))  # noqa: PTH100 — resolve() would follow symbolic links


def expanded(path: str) -> Path:
    """Expand `~` and `~user`. An unknown user is left as it is, so that opening the file fails with a clear message."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 — Path.expanduser raises RuntimeError instead


def with_tilde(path: str) -> str:
    """Replace the home directory at the beginning of a path by `~`."""
    home = os.path.expanduser("~")  # noqa: PTH111
    return f"~{path.removeprefix(home)}" if home != "/" and path.startswith(f"{home}/") else path


def local_kubeconfig() -> str:
    """Return the path of the kubeconfig of `windlass local`. Raises NoClusterError."""
    try:
        return str(local_cluster.kubeconfig(os.environ))
    except AccessError as error:
        raise NoClusterError(str(error)) from error
