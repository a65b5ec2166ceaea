"""Validation of containers: names, ports, environment, mounts, probes, lifecycle hooks and resources."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, field_references, resources, security, volumes

Container = Mapping[str, Any]
Volumes = Mapping[str, Mapping[str, Any]]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_SIDECAR_FIELDS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_MORE_THAN_ONE = "may not have more than one field specified at a time"
_SCHEMES = ("HTTP", "HTTPS")
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_PROBE_NUMBERS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def errors(containers: list[Container], known_volumes: Volumes, path: str) -> Iterator[FieldError]:
    if not containers:
        yield api_errors.required(path)
        return
    yield from _all_errors(containers, known_volumes, path)
    yield from _host_port_conflicts(containers, path)


def init_errors(
    containers: list[Container], others: list[Container], known_volumes: Volumes, path: str
) -> Iterator[FieldError]:
    yield from _all_errors(containers, known_volumes, path)
    for container in containers:
        # Init containers run one after the other, so only the ports of a single one can conflict.
        yield from _host_port_conflicts([container], path)
    names = {other.get("name", "") for other in others}
    for container, at in basics.indexed(containers, path):
        name = container.get("name", "")
        if name in names:
            yield api_errors.duplicate(f"{at}.name", name)
        if container.get("restartPolicy") == "Always":
            continue
        for key in _SIDECAR_FIELDS:
            if key in container:
                problem = "may not be set for init containers without restartPolicy=Always"
                yield api_errors.forbidden_field(f"{at}.{key}", problem)


def image_errors(containers: list[Container], path: str) -> Iterator[FieldError]:
    """Check the images of a pod; those of a template are not checked."""
    for container, at in basics.indexed(containers, path):
        image = container.get("image", "")
        if image != image.strip():
            yield api_errors.invalid_value(
                f"{at}.image", image, "must not have leading or trailing whitespace"
            )


def _all_errors(containers: list[Container], known_volumes: Volumes, path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for container, at in basics.indexed(containers, path):
        name = container.get("name", "")
        yield from basics.required_name(f"{at}.name", name, formats.dns_label)
        if name in names:
            yield api_errors.duplicate(f"{at}.name", name)
        names.add(name)
        yield from _container_errors(container, known_volumes, at)


def _container_errors(container: Container, known_volumes: Volumes, path: str) -> Iterator[FieldError]:
    yield from basics.required_fields(container, path, "image")
    yield from _probe_and_hook_errors(container, path)
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        field, value = f"{path}.terminationMessagePolicy", container.get("terminationMessagePolicy", "")
        yield api_errors.not_supported(field, value, _MESSAGE_POLICIES)
    yield from _port_errors(container.get("ports"), f"{path}.ports")
    yield from _environment_errors(container.get("env"), f"{path}.env")
    yield from _environment_source_errors(container.get("envFrom"), f"{path}.envFrom")
    yield from _mount_errors(container, known_volumes, f"{path}.volumeMounts")
    yield from _device_errors(container, known_volumes, f"{path}.volumeDevices")
    yield from basics.required_choice(
        f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES
    )
    yield from resources.errors(container.get("resources") or {}, f"{path}.resources")
    yield from security.container_errors(container.get("securityContext") or {}, f"{path}.securityContext")


def _port_errors(ports: list[dict[str, Any]] | None, path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for port, at in basics.indexed(ports, path):
        name = port.get("name", "")
        problems = formats.port_name(name) if name else []
        yield from basics.invalid_values(f"{at}.name", name, problems)
        if name and not problems and name in names:
            yield api_errors.duplicate(f"{at}.name", name)
        names.add(name)
        number = port.get("containerPort", 0)
        if not number:
            yield api_errors.required(f"{at}.containerPort")
        else:
            yield from basics.invalid_values(f"{at}.containerPort", number, formats.port_number(number))
        if port.get("hostPort"):
            yield from basics.invalid_values(
                f"{at}.hostPort", port["hostPort"], formats.port_number(port["hostPort"])
            )
        yield from basics.required_choice(f"{at}.protocol", port.get("protocol"), basics.PROTOCOLS)


def _host_port_conflicts(containers: list[Container], path: str) -> Iterator[FieldError]:
    taken: set[str] = set()
    for container, at in basics.indexed(containers, path):
        for port, port_at in basics.indexed(container.get("ports"), f"{at}.ports"):
            if not port.get("hostPort"):
                continue
            host_port = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if host_port in taken:
                yield api_errors.duplicate(f"{port_at}.hostPort", host_port)
            taken.add(host_port)


def _mount_errors(container: Container, known_volumes: Volumes, path: str) -> Iterator[FieldError]:
    paths: set[str] = set()
    devices = {
        device.get("name"): device.get("devicePath") for device in container.get("volumeDevices") or ()
    }
    for mount, at in basics.indexed(container.get("volumeMounts"), path):
        name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield api_errors.required(f"{at}.name")
        if name not in known_volumes:
            yield basics.not_found(f"{at}.name", name)
        if not mount_path:
            yield api_errors.required(f"{at}.mountPath")
        if mount_path in paths:
            yield api_errors.invalid_value(f"{at}.mountPath", mount_path, "must be unique")
        paths.add(mount_path)
        if name in devices:
            yield api_errors.invalid_value(f"{at}.name", name, "must not already exist in volumeDevices")
        if mount_path in devices.values():
            problem = "must not already exist as a path in volumeDevices"
            yield api_errors.invalid_value(f"{at}.mountPath", mount_path, problem)
        yield from _sub_path_errors(mount, at, path)
        yield from _propagation_errors(mount, container, path)


def _sub_path_errors(mount: Mapping[str, Any], at: str, path: str) -> Iterator[FieldError]:
    if mount.get("subPath"):
        yield from volumes.relative_path_errors(mount["subPath"], f"{path}.subPath")
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            problem = "subPathExpr and subPath are mutually exclusive"
            yield api_errors.invalid_value(f"{at}.subPathExpr", mount["subPathExpr"], problem)
        yield from volumes.relative_path_errors(mount["subPathExpr"], f"{path}.subPathExpr")


def _propagation_errors(mount: Mapping[str, Any], container: Container, path: str) -> Iterator[FieldError]:
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


def _device_errors(container: Container, known_volumes: Volumes, path: str) -> Iterator[FieldError]:
    for device, at in basics.indexed(container.get("volumeDevices"), path):
        name = device.get("name", "")
        if name not in known_volumes:
            yield basics.not_found(f"{at}.name", name)
        elif "persistentVolumeClaim" not in known_volumes[name]:
            problem = "can only use volume source type of PersistentVolumeClaim for block mode"
            yield api_errors.invalid_value(f"{at}.name", name, problem)
        yield from basics.required_fields(device, at, "devicePath")


def _environment_errors(variables: list[dict[str, Any]] | None, path: str) -> Iterator[FieldError]:
    for variable, at in basics.indexed(variables, path):
        yield from basics.required_name(f"{at}.name", variable.get("name"), formats.environment_name)
        if variable.get("valueFrom") is not None:
            yield from _value_errors(variable, variable["valueFrom"], f"{at}.valueFrom")


def _environment_source_errors(sources: list[dict[str, Any]] | None, path: str) -> Iterator[FieldError]:
    """Check `envFrom`."""
    for source, at in basics.indexed(sources, path):
        yield from basics.optional_name(f"{at}.prefix", source.get("prefix"), formats.environment_name)
        given = [key for key in ("configMapRef", "secretRef") if key in source]
        for key in given:
            yield from basics.required_name(
                f"{at}.{key}.name", source[key].get("name"), formats.dns_subdomain
            )
        if not given:
            yield api_errors.invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield api_errors.invalid_value(path, "", _MORE_THAN_ONE)


def _value_errors(variable: Mapping[str, Any], source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    given = [key for key in _VALUE_SOURCES if key in source]
    if "fieldRef" in given:
        allowed = field_references.ENVIRONMENT_FIELDS
        yield from field_references.field_ref_errors(source["fieldRef"], f"{path}.fieldRef", allowed)
    if "resourceFieldRef" in given:
        yield from field_references.resource_field_ref_errors(
            source["resourceFieldRef"], f"{path}.resourceFieldRef"
        )
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in given:
            yield from _key_errors(source[key], f"{path}.{key}")
    if not given:
        *others, last = (f"`{source}`" for source in _VALUE_SOURCES)
        problem = f"must specify one of: {', '.join(others)} or {last}"
        yield api_errors.invalid_value(path, "", problem)
    elif variable.get("value"):
        yield api_errors.invalid_value(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield api_errors.invalid_value(path, "", _MORE_THAN_ONE)


def _key_errors(reference: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    name = reference.get("name", "")
    yield from basics.invalid_values(f"{path}.name", name, formats.dns_subdomain(name))
    yield from basics.required_name(f"{path}.key", reference.get("key"), formats.data_key)


def _probe_and_hook_errors(container: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _handler_errors(lifecycle[hook], _HOOK_HANDLERS, f"{path}.lifecycle.{hook}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        yield from _probe_errors(probe, f"{path}.{name}")
        if name != "readinessProbe" and probe.get("successThreshold") != 1:
            field = f"{path}.{name}.successThreshold"
            yield api_errors.invalid_value(field, probe.get("successThreshold"), "must be 1")


def _probe_errors(probe: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    yield from _handler_errors(probe, _PROBE_HANDLERS, path)
    yield from basics.not_negative(probe, path, *_PROBE_NUMBERS)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield api_errors.invalid_value(
            f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"
        )


def _handler_errors(handler: Mapping[str, Any], kinds: tuple[str, ...], path: str) -> Iterator[FieldError]:
    given = [kind for kind in kinds if kind in handler]
    if not given:
        yield api_errors.required(path, "must specify a handler type")
        return
    first = given[0]
    yield from _action_errors(first, handler[first] or {}, f"{path}.{first}")
    for extra in given[1:]:
        yield api_errors.forbidden_field(f"{path}.{extra}", "may not specify more than 1 handler type")


def _action_errors(kind: str, action: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if kind == "exec":
        yield from basics.required_fields(action, path, "command")
    if kind == "httpGet":
        yield from basics.required_fields(action, path, "path")
    if kind in ("httpGet", "tcpSocket", "grpc"):
        yield from basics.port_errors(f"{path}.port", action.get("port", 0))
    if kind == "httpGet":
        if action.get("scheme") not in _SCHEMES:
            yield api_errors.not_supported(f"{path}.scheme", action.get("scheme", ""), _SCHEMES)
        for header in action.get("httpHeaders") or ():
            name = header.get("name", "")
            yield from basics.invalid_values(f"{path}.httpHeaders", name, formats.http_header(name))
