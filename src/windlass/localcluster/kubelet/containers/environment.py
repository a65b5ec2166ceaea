"""The environment variables of a container.

A container inherits a few variables of the daemon, since no image defines PATH. It also gets variables for Services,
the data of whole ConfigMaps and Secrets (`envFrom`), its own variables (`env`), and those that select GPUs.
"""

import base64
import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from windlass.k8s import quantities
from windlass.localcluster.kubelet.containers import downward, errors, expansion
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Lookup, PodFacts
from windlass.localcluster.kubelet.gpus import Inventory
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.scheduler import gpus, node_resources
from windlass.localcluster.scheduler.gpus import Gpu
from windlass.model.base import Json

_CONFIG_MAP = "ConfigMap"
_SECRET = "Secret"  # noqa: S105
_OBJECT_SOURCES = {"configMapRef": _CONFIG_MAP, "secretRef": _SECRET}
_KEY_SOURCES = {"configMapKeyRef": _CONFIG_MAP, "secretKeyRef": _SECRET}

# The inherited variables. Others may contain secrets, or describe another cluster or another training job. These are
# complete names, since variables with a prefix such as CONDA_ or LC_ may contain tokens.
_PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"})
_INHERITED = _PROXIES | {
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ"),
    *("LANG", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_HOME"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL"),
    *("XDG_CACHE_HOME", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"),
}
_URL_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# The default of container runtimes.
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_Variables = Iterator[tuple[str, str]]


def environment(pod: Json, container: Json, lookup: Lookup, facts: PodFacts) -> dict[str, str]:
    """Return the variables of the Services and of the container's spec.

    Bytes of a Secret that are not UTF-8 are decoded as surrogates, so that the process gets them unchanged.
    """
    # Many variables can refer to the same large object.
    lookup = functools.cache(lookup)
    services = dict(_limited(_service_variables(pod, facts.services)))
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        found |= dict(_object_variables(source, lookup))
    size = 0
    for variable in container.get("env") or ():
        value = (
            expansion.expand(variable["value"], found, services)
            if variable.get("value")
            else _value(variable, pod, container, lookup, facts)
        )
        if value is not None:
            found[variable["name"]] = value
            size += len(value)
            expansion.check_size(size)
    complete = {**services, **found}
    for name, value in complete.items():
        if "\0" in value:
            message = f'environment variable "{name}" contains a NUL byte'
            raise SetupError(message, errors.CREATE_ERROR)
    return complete


def _limited(variables: _Variables) -> _Variables:
    """Yield the variables; raise SetupError if they are too long for a process."""
    size = 0
    for name, value in variables:
        size += len(name) + len(value)
        expansion.check_size(size)
        yield name, value


def _object_variables(source: Json, lookup: Lookup) -> _Variables:
    kind, reference = _reference(source, _OBJECT_SOURCES)
    prefix = source.get("prefix", "")
    for key, value in _data(kind, reference, lookup).items():
        yield f"{prefix}{key}", _decoded(kind, value)


def _value(variable: Json, pod: Json, container: Json, lookup: Lookup, facts: PodFacts) -> str | None:
    """Return the value of `valueFrom`: "" if it is not set, None if an optional key does not exist."""
    source = variable.get("valueFrom")
    if source is None:
        return ""
    if "fieldRef" in source:
        return downward.field(pod, source["fieldRef"]["fieldPath"], facts)
    if "resourceFieldRef" in source:
        return downward.resource(pod, container, source["resourceFieldRef"], facts)
    if not any(key in source for key in _KEY_SOURCES):
        message = (
            f'variable "{variable["name"]}": valueFrom.{", ".join(source)} is not supported on this cluster'
        )
        raise SetupError(message)
    kind, reference = _reference(source, _KEY_SOURCES)
    value = _data(kind, reference, lookup).get(reference["key"])
    if value is None and not reference.get("optional"):
        where = f"{pod['metadata']['namespace']}/{reference['name']}"
        raise SetupError(f"couldn't find key {reference['key']} in {kind} {where}")
    return None if value is None else _decoded(kind, value)


def _reference(source: Json, kinds: Mapping[str, str]) -> tuple[str, Json]:
    key = next(key for key in kinds if key in source)
    return kinds[key], source[key]


def _data(kind: str, reference: Json, lookup: Lookup) -> dict[str, str]:
    """Return the data of a ConfigMap or Secret. The environment never gets the binaryData of a ConfigMap."""
    found = lookup(kind, reference["name"])
    if found is None and not reference.get("optional"):
        raise errors.not_found(kind, reference["name"])
    data: dict[str, str] = (found or {}).get("data") or {}
    return data


def _decoded(kind: str, value: str) -> str:
    return value if kind == _CONFIG_MAP else base64.b64decode(value).decode("utf-8", "surrogateescape")


# Inherited variables


def inherited_environment(environ: Mapping[str, str], own_programs: str = "") -> dict[str, str]:
    """Return the variables that containers inherit.

    PATH finds the programs of the active virtual or Conda environment, then those of PATH, then `own_programs`.
    """
    kept = {
        name: _without_password(value) if name in _PROXIES else value
        for name, value in environ.items()
        if name in _INHERITED
    }
    folders = (kept.get("PATH") or _DEFAULT_PATH).split(":")
    active = kept.get("VIRTUAL_ENV") or kept.get("CONDA_PREFIX")
    # A folder that is in PATH already is there where the user's shell has it.
    first = [f"{active}/bin"] if active and f"{active}/bin" not in folders else []
    last = [own_programs] if own_programs and own_programs not in folders else []
    return {**kept, "PATH": ":".join((*first, *folders, *last))}


def _without_password(url: str) -> str:
    """Return the URL of a proxy without user name and password. The password may contain any character."""
    if "@" not in url:
        return url
    scheme = _URL_SCHEME.match(url)
    return (scheme[0] if scheme else "") + url.rpartition("@")[2]


def virtual_environment_programs() -> str:
    """Return the `bin` directory of the virtual environment in which Windlass runs; empty outside of one.

    It contains programs that Windlass brings, e.g. TensorBoard. Programs in PATH take precedence.
    """
    return str(Path(sys.executable).parent) if sys.prefix != sys.base_prefix else ""


# Services: `{SERVICE}_SERVICE_HOST` and others


def _service_variables(pod: Json, services: Iterable[Json]) -> _Variables:
    """Yield variables for the API server and, unless disabled, for the Services with a ClusterIP in the namespace."""
    namespace = pod["metadata"]["namespace"]
    has_links = pod["spec"].get("enableServiceLinks", True)
    reachable = [service for service in services if service["spec"].get("clusterIP", "") not in ("", "None")]
    api_server = [
        service for service in reachable if _namespace_and_name(service) == ("default", "kubernetes")
    ]
    linked = [service for service in reachable if has_links and _namespace_and_name(service)[0] == namespace]
    by_name = {_namespace_and_name(service)[1]: service for service in (*api_server, *linked)}
    for name in sorted(by_name):
        yield from _variables_of_service(by_name[name])


def _namespace_and_name(service: Json) -> tuple[str, str]:
    return service["metadata"]["namespace"], service["metadata"]["name"]


def _variables_of_service(service: Json) -> _Variables:
    prefix, address = _upper(service["metadata"]["name"]), service["spec"]["clusterIP"]
    ports = service["spec"].get("ports") or []
    yield f"{prefix}_SERVICE_HOST", address
    for port in ports[:1]:
        yield f"{prefix}_SERVICE_PORT", str(port["port"])
    for port in ports:
        if port.get("name"):
            yield f"{prefix}_SERVICE_PORT_{_upper(port['name'])}", str(port["port"])
    for port in ports[:1]:
        yield f"{prefix}_PORT", _url(address, port)
    for port in ports:
        yield from _docker_link_variables(prefix, address, port)


def _docker_link_variables(prefix: str, address: str, port: Json) -> _Variables:
    protocol = port.get("protocol", "TCP")
    stem = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
    yield stem, _url(address, port)
    yield f"{stem}_PROTO", protocol.lower()
    yield f"{stem}_PORT", str(port["port"])
    yield f"{stem}_ADDR", address


def _url(address: str, port: Json) -> str:
    return f"{port.get('protocol', 'TCP').lower()}://{address}:{port['port']}"


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


# GPUs


def assigned_gpus(pod: Json, container: Json) -> tuple[Gpu, ...]:
    """Return the container's share of the pod's GPUs. Raises SetupError if the pod has too few."""
    counts = _gpu_counts(container)
    # Adding up the requests of a large pod for each of its containers takes long.
    of_pod = node_resources.requests_of(pod).gpus if counts else ()
    found: list[Gpu] = []
    for resource, count in counts.items():
        start = _gpus_before(pod, container["name"], resource)
        share = [gpu for gpu in of_pod if gpu.resource == resource][start : start + count]
        if len(share) < count:
            message = (
                f'container "{container["name"]}" requests {count} {resource}, but the pod has too few GPUs assigned'
                f" in the annotation {gpus.ANNOTATION}. Remove nodeName so that the scheduler assigns them."
            )
            raise SetupError(message, errors.CREATE_ERROR)
        found += share
    return tuple(found)


def gpu_environment(
    container: Json, own: Mapping[str, str], assigned: Sequence[Gpu], inventory: Inventory
) -> dict[str, str]:
    """Return the variables that make only the assigned GPUs visible to the container. Raises SetupError if one of them
    is not available any more. `own` is the result of `environment`."""
    lost = next((gpu.id for gpu in assigned if inventory.device(gpu.id) is None), None)
    if lost is not None:
        message = (
            f'container "{container["name"]}" cannot use {lost}, which is assigned to its pod: this machine does not'
            " have it any more, or the cluster was restarted with other GPUs. Delete the pod, or submit the job again."
        )
        raise SetupError(message, errors.CREATE_ERROR)
    return inventory.variables(assigned, own)


def _gpus_before(pod: Json, name: str, resource: str) -> int:
    """Return how many GPUs of a resource belong to earlier containers that run at the same time as this one."""
    sidecars = specs.sidecar_names(pod)
    held = 0
    for container in (*specs.init_containers(pod), *specs.containers(pod)):
        if container["name"] == name:
            break
        has_ended_by_then = (
            specs.is_init_container(pod, container["name"]) and container["name"] not in sidecars
        )
        held += 0 if has_ended_by_then else _gpu_counts(container).get(resource, 0)
    return held


def _gpu_counts(container: Json) -> dict[str, int]:
    """Return the number of requested GPUs by resource."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    counts = {name: int(quantities.parse(amount)) for name, amount in amounts.items() if gpus.is_gpu(name)}
    return {name: count for name, count in counts.items() if count}
