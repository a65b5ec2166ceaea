"""Probes and lifecycle hooks: one handler each, with a port or a command that can work."""

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import basics

_SCHEMES = ("HTTP", "HTTPS")
_OF_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")
_OF_HOOKS = ("exec", "httpGet", "tcpSocket", "sleep")
_SECONDS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def faults(container: Mapping[str, Any], path: str) -> Iterator[Fault]:
    lifecycle = container.get("lifecycle") or {}
    for hook in ("postStart", "preStop"):
        if hook in lifecycle:
            yield from _handler_faults(lifecycle[hook], _OF_HOOKS, f"{path}.lifecycle.{hook}")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        yield from _probe_faults(probe, f"{path}.{name}")
        if name != "readinessProbe" and probe.get("successThreshold") != 1:
            field = f"{path}.{name}.successThreshold"
            yield api_errors.invalid_value(field, probe.get("successThreshold"), "must be 1")


def _probe_faults(probe: Mapping[str, Any], path: str) -> Iterator[Fault]:
    yield from _handler_faults(probe, _OF_PROBES, path)
    yield from basics.not_negative(probe, path, *_SECONDS)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield api_errors.invalid_value(
            f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0"
        )


def _handler_faults(handler: Mapping[str, Any], kinds: tuple[str, ...], path: str) -> Iterator[Fault]:
    given = [kind for kind in kinds if kind in handler]
    if not given:
        yield api_errors.required(path, "must specify a handler type")
        return
    first = given[0]
    yield from _action_faults(first, handler[first] or {}, f"{path}.{first}")
    for extra in given[1:]:
        yield api_errors.forbidden_field(f"{path}.{extra}", "may not specify more than 1 handler type")


def _action_faults(kind: str, action: Mapping[str, Any], path: str) -> Iterator[Fault]:
    if kind == "exec":
        yield from basics.present(action, path, "command")
    if kind == "httpGet":
        yield from basics.present(action, path, "path")
    if kind in ("httpGet", "tcpSocket", "grpc"):
        yield from basics.port(f"{path}.port", action.get("port", 0))
    if kind == "httpGet":
        if action.get("scheme") not in _SCHEMES:
            yield api_errors.not_supported(f"{path}.scheme", action.get("scheme", ""), _SCHEMES)
        for header in action.get("httpHeaders") or ():
            name = header.get("name", "")
            yield from basics.each(f"{path}.httpHeaders", name, formats.http_header(name))
