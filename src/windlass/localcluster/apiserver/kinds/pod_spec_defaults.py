"""Defaults that depend on other fields of a pod spec, and canonical quantities, in pods and in templates."""

import re
from collections.abc import Iterator
from typing import Any

from windlass.k8s import quantities
from windlass.localcluster.apiserver.strategy import Object

_WORD = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_WORD}(?:/{_WORD})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


def set_defaults(spec: Object) -> None:
    # `serviceAccount` is a deprecated copy of `serviceAccountName`.
    if name := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = name
    for container in all_containers(spec):
        if not container.get("imagePullPolicy"):
            container["imagePullPolicy"] = pull_policy(container.get("image", ""))
        if spec.get("hostNetwork"):
            _set_host_ports(container)
        canonicalize_resources(container)
    _canonicalize(spec, "overhead")
    for volume in spec.get("volumes") or ():
        if not volume.keys() - {"name"}:
            volume["emptyDir"] = {}
        if "sizeLimit" in (volume.get("emptyDir") or {}):
            volume["emptyDir"]["sizeLimit"] = quantities.canonical(volume["emptyDir"]["sizeLimit"])


def all_containers(spec: Object) -> Iterator[dict[str, Any]]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def canonicalize_resources(holder: Object) -> None:
    """Write limits and requests in canonical form, e.g. `1` instead of `1000m`."""
    _canonicalize(holder.get("resources") or {}, "limits", "requests")


def _canonicalize(holder: Object, *keys: str) -> None:
    for key in keys:
        if holder.get(key):
            holder[key] = {
                name: quantities.canonical(amount, quantities.MILLI) for name, amount in holder[key].items()
            }


def pull_policy(image: str) -> str:
    """Return the default pull policy: Always for the tag `latest` and for an image with neither a tag nor a digest,
    else IfNotPresent."""
    reference = _REFERENCE.fullmatch(image)
    if reference is None:
        return "IfNotPresent"
    is_latest = reference["tag"] == "latest" or not (reference["tag"] or reference["digest"])
    return "Always" if is_latest else "IfNotPresent"


def _set_host_ports(container: dict[str, Any]) -> None:
    for port in container.get("ports") or ():
        if not port.get("hostPort") and port.get("containerPort"):
            port["hostPort"] = port["containerPort"]
