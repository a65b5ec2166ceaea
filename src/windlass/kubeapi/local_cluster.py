"""The kubeconfig of the cluster of `windlass local`, and whether commands without options use that cluster.

This module reads two files and starts nothing: `windlass.runner.local` manages the cluster.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from windlass.kubeapi.errors import AccessError

KUBECONFIG = "kubeconfig"
"""Name of the kubeconfig in the data directory of a cluster."""
_CHOICE = "use-local"
"""Name of the file that `windlass local use` writes: it contains the path of the kubeconfig."""


def state_folder(environment: Mapping[str, str]) -> Path:
    state_home = environment.get("XDG_STATE_HOME", "")
    # The XDG specification requires relative paths to be ignored.
    base = Path(state_home) if state_home.startswith("/") else Path.home() / ".local" / "state"
    return base / "windlass"


def default_data(environment: Mapping[str, str]) -> Path:
    """Return the default data directory of `windlass local`."""
    return state_folder(environment) / "local"


def choice_file(environment: Mapping[str, str]) -> Path:
    return state_folder(environment) / _CHOICE


def chosen_kubeconfig(environment: Mapping[str, str]) -> Path | None:
    """Return the kubeconfig that `windlass local use` has chosen, if any."""
    try:
        text = choice_file(environment).read_text().strip()
    except (OSError, RuntimeError, UnicodeDecodeError):
        return None
    return Path(text) if text.startswith("/") else None


def kubeconfig(environment: Mapping[str, str]) -> Path:
    """Return the kubeconfig of the cluster that `--local` uses. Raises AccessError if there is none."""
    path = chosen_kubeconfig(environment) or default_data(environment) / KUBECONFIG
    if not path.exists():
        raise AccessError("there is no cluster on this machine: start one with `windlass local up`")
    return path


def selected(kubeconfig_option: str, context: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the kubeconfig to load; empty for that of kubectl.

    The cluster of `windlass local` is used after `windlass local use`, or if kubectl has no cluster. Options have
    priority. Raises AccessError.
    """
    if kubeconfig_option or context:
        return kubeconfig_option
    if chosen_kubeconfig(environment) is not None:
        return str(kubeconfig(environment))
    has_variable = bool(environment.get("KUBECONFIG") or environment.get("KUBERNETES_SERVICE_HOST"))
    if has_variable or Path(environment.get("HOME") or Path.home(), ".kube", "config").exists():
        return ""
    path = default_data(environment) / KUBECONFIG
    return str(path) if path.exists() else ""


def contains(source: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a configuration comes from the kubeconfig of a local cluster."""
    try:
        return str(kubeconfig(environment)) in source
    except (AccessError, RuntimeError):
        return False
