"""Validation of containers: names, ports, environment, mounts, probes, lifecycle hooks and resources."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, field_references, resources, volumes

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
    *("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
)


def errors(containers: list[Container], valid_volumes: Volumes, path: str) -> Iterator[FieldError]:
    if not containers:
        yield api_errors.required(path)
        return
    yield from _all_errors(containers, valid_volumes, path)
    yield from _host_port_conflicts(containers, path)


def init_errors(
    containers: list[Container], others: list[Container], valid_volumes: Volumes, path: str
) -> Iterator[FieldError]:
    yield from _all_errors(containers, valid_volumes, path)
    for container in containers:
        # Like Kubernetes, check the ports of each container alone: most init containers run one after the other.
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
    """Reject whitespace around the images of a pod. Kubernetes accepts it in a pod template."""
    for container, at in basics.indexed(containers, path):
        image = container.get("image", "")
        if image != image.strip():
            yield api_errors.invalid_value(
                f"{at}.image", image, "must not have leading or trailing whitespace"
            )


def _all_errors(containers: list[Container], valid_volumes: Volumes, path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for container, at in basics.indexed(containers, path):
        yield from basics.required_name(container, at, "name", formats.dns_label)
        yield from basics.unique(f"{at}.name", container.get("name", ""), names)
        yield from _container_errors(container, valid_volumes, at)


def _container_errors(container: Container, valid_volumes: Volumes, path: str) -> Iterator[FieldError]:
    yield from basics.required_fields(container, path, "image")
    yield from _probe_and_hook_errors(container, path)
    yield from basics.choice(container, path, "terminationMessagePolicy", _MESSAGE_POLICIES)
    yield from _port_errors(container.get("ports"), f"{path}.ports")
    yield from _environment_errors(container.get("env"), f"{path}.env")
    yield from _environment_source_errors(container.get("envFrom"), f"{path}.envFrom")
    yield from _mount_errors(container, valid_volumes, f"{path}.volumeMounts")
    yield from _device_errors(container, valid_volumes, f"{path}.volumeDevices")
    yield from basics.required_choice(container, path, "imagePullPolicy", _PULL_POLICIES)
    yield from resources.errors(container.get("resources") or {}, f"{path}.resources")
    yield from _security_errors(container.get("securityContext") or {}, f"{path}.securityContext")


def _security_errors(context: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    yield from basics.ids_in_range(context, path, "runAsUser", "runAsGroup")
    if context.get("allowPrivilegeEscalation") is not False:
        return
    conflict = "cannot set `allowPrivilegeEscalation` to false and"
    if context.get("privileged"):
        yield api_errors.invalid_value(path, context, f"{conflict} `privileged` to true")
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        yield api_errors.invalid_value(path, context, f"{conflict} `capabilities.Add` CAP_SYS_ADMIN")


def _port_errors(ports: list[dict[str, Any]] | None, path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for port, at in basics.indexed(ports, path):
        name = port.get("name", "")
        problems = formats.port_name(name) if name else []
        yield from basics.invalid_values(f"{at}.name", name, problems)
        if name and not problems and name in names:
            yield api_errors.duplicate(f"{at}.name", name)
        names.add(name)
        yield from basics.required_fields(port, at, "containerPort")
        for key in ("containerPort", "hostPort"):
            if port.get(key):
                yield from basics.port_errors(port, at, key)
        yield from basics.required_choice(port, at, "protocol", basics.PROTOCOLS)


def _host_port_conflicts(containers: list[Container], path: str) -> Iterator[FieldError]:
    taken: set[str] = set()
    for container, at in basics.indexed(containers, path):
        for port, port_at in basics.indexed(container.get("ports"), f"{at}.ports"):
            if not port.get("hostPort"):
                continue
            host_port = f"{port.get('protocol')}/{port.get('hostIP', '')}/{port['hostPort']}"
            yield from basics.unique(f"{port_at}.hostPort", host_port, taken)


def _mount_errors(container: Container, valid_volumes: Volumes, path: str) -> Iterator[FieldError]:
    paths: set[str] = set()
    devices = {
        device.get("name"): device.get("devicePath") for device in container.get("volumeDevices") or ()
    }
    device_paths = {*devices.values()}
    for mount, at in basics.indexed(container.get("volumeMounts"), path):
        name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
        yield from basics.required_fields(mount, at, "name")
        if name not in valid_volumes:
            yield basics.not_found(f"{at}.name", name)
        yield from basics.required_fields(mount, at, "mountPath")
        if mount_path in paths:
            yield api_errors.invalid_value(f"{at}.mountPath", mount_path, "must be unique")
        paths.add(mount_path)
        if name in devices:
            yield api_errors.invalid_value(f"{at}.name", name, "must not already exist in volumeDevices")
        if mount_path in device_paths:
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
    yield from basics.optional_choice(mount, path, "mountPropagation", _PROPAGATIONS)
    is_privileged = (container.get("securityContext") or {}).get("privileged", False)
    if mount.get("mountPropagation") == "Bidirectional" and not is_privileged:
        problem = "Bidirectional mount propagation is available only to privileged containers"
        yield api_errors.forbidden_field(f"{path}.mountPropagation", problem)


def _device_errors(container: Container, valid_volumes: Volumes, path: str) -> Iterator[FieldError]:
    for device, at in basics.indexed(container.get("volumeDevices"), path):
        name = device.get("name", "")
        if name not in valid_volumes:
            yield basics.not_found(f"{at}.name", name)
        elif "persistentVolumeClaim" not in valid_volumes[name]:
            problem = "can only use volume source type of PersistentVolumeClaim for block mode"
            yield api_errors.invalid_value(f"{at}.name", name, problem)
        yield from basics.required_fields(device, at, "devicePath")


def _environment_errors(variables: list[dict[str, Any]] | None, path: str) -> Iterator[FieldError]:
    for variable, at in basics.indexed(variables, path):
        yield from basics.required_name(variable, at, "name", formats.environment_name)
        if variable.get("valueFrom") is not None:
            yield from _value_errors(variable, variable["valueFrom"], f"{at}.valueFrom")


def _environment_source_errors(sources: list[dict[str, Any]] | None, path: str) -> Iterator[FieldError]:
    """Check `envFrom`."""
    for source, at in basics.indexed(sources, path):
        yield from basics.optional_name(source, at, "prefix", formats.environment_name)
        references = [key for key in ("configMapRef", "secretRef") if key in source]
        for key in references:
            yield from basics.required_name(source[key], f"{at}.{key}", "name", formats.dns_subdomain)
        if not references:
            yield api_errors.invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(references) > 1:
            yield api_errors.invalid_value(path, "", _MORE_THAN_ONE)


def _value_errors(variable: Mapping[str, Any], source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    sources_found = [key for key in _VALUE_SOURCES if key in source]
    if "fieldRef" in sources_found:
        yield from field_references.field_ref_errors(source, path, field_references.ENVIRONMENT_FIELDS)
    if "resourceFieldRef" in sources_found:
        yield from field_references.resource_field_ref_errors(source, path)
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in sources_found:
            yield from basics.format_errors(source[key], f"{path}.{key}", "name", formats.dns_subdomain)
            yield from basics.required_name(source[key], f"{path}.{key}", "key", formats.data_key)
    if not sources_found:
        *others, last = (f"`{source}`" for source in _VALUE_SOURCES)
        problem = f"must specify one of: {', '.join(others)} or {last}"
        yield api_errors.invalid_value(path, "", problem)
    elif variable.get("value"):
        yield api_errors.invalid_value(path, "", "may not be specified when `value` is not empty")
    elif len(sources_found) > 1:
        yield api_errors.invalid_value(path, "", _MORE_THAN_ONE)


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


def _handler_errors(
    handler: Mapping[str, Any], handler_types: tuple[str, ...], path: str
) -> Iterator[FieldError]:
    found = [handler_type for handler_type in handler_types if handler_type in handler]
    if not found:
        yield api_errors.required(path, "must specify a handler type")
        return
    first, *extras = found
    yield from _action_errors(first, handler[first] or {}, f"{path}.{first}")
    for extra in extras:
        yield api_errors.forbidden_field(f"{path}.{extra}", "may not specify more than 1 handler type")


def _action_errors(handler_type: str, action: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if handler_type == "exec":
        yield from basics.required_fields(action, path, "command")
    if handler_type == "httpGet":
        yield from basics.required_fields(action, path, "path")
    if handler_type in ("httpGet", "tcpSocket", "grpc"):
        yield from basics.port_errors(action, path, "port")
    if handler_type == "httpGet":
        yield from basics.choice(action, path, "scheme", _SCHEMES)
        for header in action.get("httpHeaders") or ():
            name = header.get("name", "")
            yield from basics.invalid_values(f"{path}.httpHeaders", name, formats.http_header(name))
