"""The containers of a pod: names, ports, environment, mounts, probes and resources."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import basics, environment, probes, resources, security, volumes

Container = Mapping[str, Any]
Volumes = Mapping[str, Mapping[str, Any]]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_ONLY_OF_SIDECARS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def faults(containers: list[Container], known_volumes: Volumes, path: str) -> Iterator[Fault]:
    if not containers:
        yield api_errors.required(path)
        return
    yield from _all(containers, known_volumes, path)
    yield from _host_ports_taken_twice(containers, path)


def init_faults(
    containers: list[Container], others: list[Container], known_volumes: Volumes, path: str
) -> Iterator[Fault]:
    yield from _all(containers, known_volumes, path)
    for container in containers:
        # They run one after the other, so that only a container's own ports can collide.
        yield from _host_ports_taken_twice([container], path)
    names = {other.get("name", "") for other in others}
    for container, at in basics.indexed(containers, path):
        name = container.get("name", "")
        if name in names:
            yield api_errors.duplicate(f"{at}.name", name)
        if container.get("restartPolicy") == "Always":
            continue
        for key in _ONLY_OF_SIDECARS:
            if key in container:
                problem = "may not be set for init containers without restartPolicy=Always"
                yield api_errors.forbidden_field(f"{at}.{key}", problem)


def image_faults(containers: list[Container], path: str) -> Iterator[Fault]:
    """What a pod's images must be beyond what a template's must."""
    for container, at in basics.indexed(containers, path):
        image = container.get("image", "")
        if image != image.strip():
            yield api_errors.invalid_value(
                f"{at}.image", image, "must not have leading or trailing whitespace"
            )


def _all(containers: list[Container], known_volumes: Volumes, path: str) -> Iterator[Fault]:
    names: set[str] = set()
    for container, at in basics.indexed(containers, path):
        name = container.get("name", "")
        yield from basics.named(f"{at}.name", name, formats.dns_label)
        if name in names:
            yield api_errors.duplicate(f"{at}.name", name)
        names.add(name)
        yield from _container_faults(container, known_volumes, at)


def _container_faults(container: Container, known_volumes: Volumes, path: str) -> Iterator[Fault]:
    yield from basics.present(container, path, "image")
    yield from probes.faults(container, path)
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        field, value = f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy", "")
        yield api_errors.not_supported(field, value, _MESSAGE_POLICIES)
    yield from _port_faults(container.get("ports"), f"{path}.ports")
    yield from environment.faults(container.get("env"), f"{path}.env")
    yield from environment.source_faults(container.get("envFrom"), f"{path}.envFrom")
    yield from _mount_faults(container, known_volumes, f"{path}.volumeMounts")
    yield from _device_faults(container, known_volumes, f"{path}.volumeDevices")
    yield from basics.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    yield from resources.faults(container.get("resources") or {}, f"{path}.resources")
    yield from security.of_container(container.get("securityContext") or {}, f"{path}.securityContext")


def _port_faults(ports: list[dict[str, Any]] | None, path: str) -> Iterator[Fault]:
    names: set[str] = set()
    for port, at in basics.indexed(ports, path):
        name = port.get("name", "")
        problems = formats.port_name(name) if name else []
        yield from basics.each(f"{at}.name", name, problems)
        if name and not problems and name in names:
            yield api_errors.duplicate(f"{at}.name", name)
        names.add(name)
        number = port.get("containerPort", 0)
        if not number:
            yield api_errors.required(f"{at}.containerPort")
        else:
            yield from basics.each(f"{at}.containerPort", number, formats.port_number(number))
        if port.get("hostPort"):
            yield from basics.each(f"{at}.hostPort", port["hostPort"], formats.port_number(port["hostPort"]))
        yield from basics.one_of(f"{at}.protocol", port.get("protocol"), basics.PROTOCOLS)


def _host_ports_taken_twice(containers: list[Container], path: str) -> Iterator[Fault]:
    taken: set[str] = set()
    for container, at in basics.indexed(containers, path):
        for port, port_at in basics.indexed(container.get("ports"), f"{at}.ports"):
            if not port.get("hostPort"):
                continue
            place = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if place in taken:
                yield api_errors.duplicate(f"{port_at}.hostPort", place)
            taken.add(place)


def _mount_faults(container: Container, known_volumes: Volumes, path: str) -> Iterator[Fault]:
    places: set[str] = set()
    devices = {
        device.get("name"): device.get("devicePath") for device in container.get("volumeDevices") or ()
    }
    for mount, at in basics.indexed(container.get("volumeMounts"), path):
        name, place = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield api_errors.required(f"{at}.name")
        if name not in known_volumes:
            yield basics.not_among(f"{at}.name", name)
        if not place:
            yield api_errors.required(f"{at}.mountPath")
        if place in places:
            yield api_errors.invalid_value(f"{at}.mountPath", place, "must be unique")
        places.add(place)
        if name in devices:
            yield api_errors.invalid_value(f"{at}.name", name, "must not already exist in volumeDevices")
        if place in devices.values():
            problem = "must not already exist as a path in volumeDevices"
            yield api_errors.invalid_value(f"{at}.mountPath", place, problem)
        yield from _sub_path_faults(mount, at, path)
        yield from _propagation_faults(mount, container, path)


def _sub_path_faults(mount: Mapping[str, Any], at: str, path: str) -> Iterator[Fault]:
    if mount.get("subPath"):
        yield from volumes.descending(mount["subPath"], f"{path}.subPath")
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            problem = "subPathExpr and subPath are mutually exclusive"
            yield api_errors.invalid_value(f"{at}.subPathExpr", mount["subPathExpr"], problem)
        yield from volumes.descending(mount["subPathExpr"], f"{path}.subPathExpr")


def _propagation_faults(mount: Mapping[str, Any], container: Container, path: str) -> Iterator[Fault]:
    propagation = mount.get("mountPropagation")
    if propagation is None:
        return
    field = f"{path}.mountPropagation"
    if propagation not in _PROPAGATIONS:
        yield api_errors.not_supported(field, propagation, _PROPAGATIONS)
    is_privileged = (container.get("securityContext") or {}).get("privileged", False)
    if propagation == "Bidirectional" and not is_privileged:
        problem = "Bidirectional mount propagation is available only to privileged containers"
        yield api_errors.forbidden_field(field, problem)


def _device_faults(container: Container, known_volumes: Volumes, path: str) -> Iterator[Fault]:
    for device, at in basics.indexed(container.get("volumeDevices"), path):
        name = device.get("name", "")
        if name not in known_volumes:
            yield basics.not_among(f"{at}.name", name)
        elif "persistentVolumeClaim" not in known_volumes[name]:
            problem = "can only use volume source type of PersistentVolumeClaim for block mode"
            yield api_errors.invalid_value(f"{at}.name", name, problem)
        yield from basics.present(device, at, "devicePath")
