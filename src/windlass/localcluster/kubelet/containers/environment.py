"""The environment variables of a container.

A container inherits a few variables of the daemon, since no image defines PATH. It also gets variables for Services,
the data of whole ConfigMaps and Secrets (`envFrom`), its own variables (`env`), and CUDA_VISIBLE_DEVICES.
"""

import base64
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from windlass.k8s import quantities
from windlass.localcluster.kubelet import machine
from windlass.localcluster.kubelet.containers import downward, errors, expansion
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Lookup, PodFacts
from windlass.localcluster.kubelet.lifecycle import specs
from windlass.localcluster.scheduler import gpus, node_resources
from windlass.model.base import Json

_CONFIG_MAP = "ConfigMap"
_SECRET = "Secret"  # noqa: S105
_OBJECT_SOURCES = {"configMapRef": _CONFIG_MAP, "secretRef": _SECRET}
_KEY_SOURCES = {"configMapKeyRef": _CONFIG_MAP, "secretKeyRef": _SECRET}

# The inherited variables. Others may hold secrets, or describe another cluster or another training job.
_INHERITED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM"),
        *("LANG", "TZ"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "CUDA_HOME"),
        *("VIRTUAL_ENV", "XDG_CACHE_HOME", "REQUESTS_CA_BUNDLE"),
        *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    }
)
_INHERITED_PREFIXES = ("LC_", "CONDA_", "SSL_CERT_", "PIP_")
# The default of container runtimes.
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_DEVICE_ORDER = "CUDA_DEVICE_ORDER"

_Variables = Iterator[tuple[str, str]]


def environment(pod: Json, container: Json, lookup: Lookup, facts: PodFacts) -> dict[str, str]:
    """Return the variables of the Services and of the container's spec.

    Bytes of a Secret that are not UTF-8 are decoded as surrogates, so that the process gets them unchanged.
    """
    services = _service_variables(pod, facts.services)
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        found |= dict(_object_variables(source, lookup))
    for variable in container.get("env") or ():
        if variable.get("value"):
            found[variable["name"]] = expansion.expand(variable["value"], found, services)
            continue
        value = _value(variable, pod, container, lookup, facts)
        if value is not None:
            found[variable["name"]] = value
    complete = {**services, **found}
    for name, value in complete.items():
        if "\0" in value:
            message = f'environment variable "{name}" contains a NUL byte'
            raise SetupError(message, errors.CREATE_ERROR)
    return complete


def _object_variables(source: Json, lookup: Lookup) -> _Variables:
    kind, reference = _reference(source, _OBJECT_SOURCES)
    prefix = source.get("prefix", "")
    for key, value in _decoded_data(kind, reference, lookup).items():
        yield f"{prefix}{key}", value


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
    value = _decoded_data(kind, reference, lookup).get(reference["key"])
    if value is None and not reference.get("optional"):
        where = f"{pod['metadata']['namespace']}/{reference['name']}"
        raise SetupError(f"couldn't find key {reference['key']} in {kind} {where}")
    return value


def _reference(source: Json, kinds: Mapping[str, str]) -> tuple[str, Json]:
    key = next(key for key in kinds if key in source)
    return kinds[key], source[key]


def _decoded_data(kind: str, reference: Json, lookup: Lookup) -> dict[str, str]:
    """Return the data of a ConfigMap or Secret. The environment never gets the binaryData of a ConfigMap."""
    found = lookup(kind, reference["name"])
    if found is None and not reference.get("optional"):
        raise errors.not_found(kind, reference["name"])
    data: dict[str, str] = (found or {}).get("data") or {}
    if kind == _CONFIG_MAP:
        return data
    return {key: base64.b64decode(value).decode("utf-8", "surrogateescape") for key, value in data.items()}


# Inherited variables


def inherited_environment(environ: Mapping[str, str], programs: str = "") -> dict[str, str]:
    """Return the variables that containers inherit, with the directory `programs` first in PATH."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    path = kept.get("PATH") or _DEFAULT_PATH
    is_first_already = path.split(":")[0] == programs
    return {**kept, "PATH": f"{programs}:{path}" if programs and not is_first_already else path}


def virtual_environment_programs() -> str:
    """Return the `bin` directory of the virtual environment in which Windlass runs; empty outside of one.

    A virtual environment that is not activated is not in PATH, yet the user has installed packages in it.
    """
    return str(Path(sys.executable).parent) if sys.prefix != sys.base_prefix else ""


# Services: `{SERVICE}_SERVICE_HOST` and others


def _service_variables(pod: Json, services: Iterable[Json]) -> dict[str, str]:
    """Return variables for the API server and, unless disabled, for the Services with a ClusterIP in the namespace."""
    namespace = pod["metadata"]["namespace"]
    has_links = pod["spec"].get("enableServiceLinks", True)
    reachable = [service for service in services if service["spec"].get("clusterIP", "") not in ("", "None")]
    api_server = [
        service for service in reachable if _namespace_and_name(service) == ("default", "kubernetes")
    ]
    linked = [service for service in reachable if has_links and _namespace_and_name(service)[0] == namespace]
    by_name = {_namespace_and_name(service)[1]: service for service in (*api_server, *linked)}
    return {key: value for name in sorted(by_name) for key, value in _variables_of_service(by_name[name])}


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


def gpu_environment(
    pod: Json, container: Json, own: Mapping[str, str], gpu_ids: Sequence[str]
) -> dict[str, str]:
    """Return the variables that make only the container's share of the pod's GPUs visible to the container.

    `own` is the result of `environment`: a CUDA_VISIBLE_DEVICES in it selects from the share, counted from 0.
    """
    count = _gpu_count(container)
    if not count:
        return {_VISIBLE_DEVICES: ""} if gpu_ids else {}
    start = _gpus_before(pod, container["name"])
    share = node_resources.requests_of(pod).gpus[start : start + count]
    if len(share) < count:
        message = (
            f'container "{container["name"]}" requests {count} {gpus.RESOURCE}, but the pod has too few GPUs assigned'
            f" in the annotation {gpus.ANNOTATION}. Remove nodeName so that the scheduler assigns them."
        )
        raise SetupError(message, errors.CREATE_ERROR)
    visible = _selected_gpus(own[_VISIBLE_DEVICES], share) if _VISIBLE_DEVICES in own else share
    # CUDA's default order differs from the order in which the machine numbers its GPUs.
    return {_VISIBLE_DEVICES: machine.visible_devices(gpu_ids, visible), _DEVICE_ORDER: "PCI_BUS_ID"}


def _gpus_before(pod: Json, name: str) -> int:
    """Return how many GPUs belong to earlier containers that run at the same time as this one."""
    sidecars = specs.sidecar_names(pod)
    held = 0
    for container in (*specs.init_containers(pod), *specs.containers(pod)):
        if container["name"] == name:
            break
        has_ended_by_then = (
            specs.is_init_container(pod, container["name"]) and container["name"] not in sidecars
        )
        held += 0 if has_ended_by_then else _gpu_count(container)
    return held


def _gpu_count(container: Json) -> int:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return int(quantities.parse(amounts.get(gpus.RESOURCE, "0")))


def _selected_gpus(visible_devices: str, share: Sequence[int]) -> list[int]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES selects. Like CUDA, ignore everything after the first invalid entry."""
    found: list[int] = []
    for number in (entry.strip() for entry in visible_devices.split(",")):
        is_valid = number.isascii() and number.isdecimal() and int(number) < len(share)
        if not is_valid:
            break
        found.append(share[int(number)])
    return found
