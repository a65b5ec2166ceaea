"""Where the services are, as variables in the environment of every container: `{SERVICE}_SERVICE_HOST` and its kin."""

from collections.abc import Iterable, Iterator

from windlass.model.base import Json

_Variables = Iterator[tuple[str, str]]


def of(pod: Json, services: Iterable[Json]) -> dict[str, str]:
    """Those of the pod's namespace, unless it wants none, and always the API server's."""
    namespace = pod["metadata"]["namespace"]
    has_links = pod["spec"].get("enableServiceLinks", True)
    reachable = [service for service in services if _has_address(service)]
    api_server = [service for service in reachable if _place(service) == ("default", "kubernetes")]
    linked = [service for service in reachable if has_links and _place(service)[0] == namespace]
    by_name = {_place(service)[1]: service for service in (*api_server, *linked)}
    return {key: value for name in sorted(by_name) for key, value in _variables(by_name[name])}


def _place(service: Json) -> tuple[str, str]:
    return service["metadata"]["namespace"], service["metadata"]["name"]


def _has_address(service: Json) -> bool:
    return service["spec"].get("clusterIP", "") not in ("", "None")


def _variables(service: Json) -> _Variables:
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
        yield from _link(prefix, address, port)


def _link(prefix: str, address: str, port: Json) -> _Variables:
    """The variables that Docker once set for linked containers."""
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
