"""The strategies of the small built-in kinds: ConfigMap, Secret, Endpoints, Event, Lease and ServiceAccount.

They correspond to the strategies in `pkg/registry` and the rules in `pkg/apis/*/validation` of Kubernetes.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics
from windlass.localcluster.apiserver.strategy import Object, Strategy

_MAX_DATA_BYTES = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_MAX_EVENT_BYTES = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_TIMES = ("eventTime", "firstTimestamp", "lastTimestamp")


def _data_key_errors(data: Iterable[str], field: str) -> Iterator[FieldError]:
    for key in data:
        yield from basics.invalid_values(f"{field}[{key}]", key, formats.data_key(key))


def _decoded_size(data: Mapping[str, str]) -> int:
    """Return the size of base64 data after decoding."""
    return sum(len(base64.b64decode(value)) for value in data.values())


def _immutability_errors(
    new: Mapping[str, Any], old: Mapping[str, Any], *fields: str
) -> Iterator[FieldError]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield api_errors.forbidden_field("immutable", _IMMUTABLE)
    for field in fields:
        if (new.get(field) or {}) != (old.get(field) or {}):
            yield api_errors.forbidden_field(field, _IMMUTABLE)


class ConfigMapStrategy(Strategy):
    def validate(self, new: Object) -> Iterator[FieldError]:
        data, binary = new.get("data") or {}, new.get("binaryData") or {}
        yield from _data_key_errors(data, "data")
        for key in data:
            if key in binary:
                yield api_errors.invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
        yield from _data_key_errors(binary, "binaryData")
        size = sum(len(value.encode()) for value in data.values()) + _decoded_size(binary)
        if size > _MAX_DATA_BYTES:
            # Kubernetes reports the empty path for a ConfigMap that is too large.
            yield api_errors.too_long("[]", _MAX_DATA_BYTES)

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        return _immutability_errors(new, old, "data", "binaryData")


class SecretStrategy(Strategy):
    def default(self, new: Object) -> None:
        """Move `stringData`, which is write-only, into the data, where it takes precedence."""
        for key, text in (new.pop("stringData", None) or {}).items():
            new.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()

    def validate(self, new: Object) -> Iterator[FieldError]:
        data: dict[str, str] = new.get("data") or {}
        yield from _data_key_errors(data, "data")
        if _decoded_size(data) > _MAX_DATA_BYTES:
            yield api_errors.too_long("data", _MAX_DATA_BYTES)
        yield from _type_errors(new, data)

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        yield from basics.immutable("type", new.get("type"), old.get("type"))
        yield from _immutability_errors(new, old, "data")


def _type_errors(new: Object, data: dict[str, str]) -> Iterator[FieldError]:
    match new.get("type"):
        case "kubernetes.io/service-account-token":
            if not (new["metadata"].get("annotations") or {}).get(_SERVICE_ACCOUNT):
                yield api_errors.required(f"metadata.annotations[{_SERVICE_ACCOUNT}]")
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson" as secret_type:
            yield from _docker_errors(data, _DOCKER_KEYS[secret_type])
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                # Like Kubernetes, report both fields, although one of them suffices.
                yield api_errors.required("data[username]")
                yield api_errors.required("data[password]")
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                yield api_errors.required("data[ssh-privatekey]")
        case "kubernetes.io/tls":
            for key in ("tls.crt", "tls.key"):
                if key not in data:
                    yield api_errors.required(f"data[{key}]")


def _docker_errors(data: dict[str, str], key: str) -> Iterator[FieldError]:
    if key not in data:
        yield api_errors.required(f"data[{key}]")
        return
    try:
        msgspec.json.decode(base64.b64decode(data[key]), type=dict)
    except msgspec.MsgspecError:
        problem = "must be a JSON object"
        yield api_errors.invalid_value(f"data[{key}]", "<secret contents redacted>", problem)


class EndpointsStrategy(Strategy):
    allows_create_on_update = True

    def validate(self, new: Object) -> Iterator[FieldError]:
        for subset, at in basics.indexed(new.get("subsets"), "subsets"):
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                yield api_errors.required(at, "must specify `addresses` or `notReadyAddresses`")
            for key in ("addresses", "notReadyAddresses"):
                for address, address_at in basics.indexed(subset.get(key), f"{at}.{key}"):
                    yield from _address_errors(address, address_at)
            is_name_required = len(subset.get("ports") or ()) > 1
            for port, port_at in basics.indexed(subset.get("ports"), f"{at}.ports"):
                yield from _port_errors(port, is_name_required, port_at)


def _address_errors(address: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    yield from basics.format_errors(address, path, "ip", formats.ip_address)
    yield from basics.optional_name(address, path, "hostname", formats.dns_label)
    yield from basics.optional_name(address, path, "nodeName", formats.dns_subdomain)
    yield from basics.non_special_ip(f"{path}.ip", address.get("ip", ""))


def _port_errors(port: Mapping[str, Any], is_name_required: bool, path: str) -> Iterator[FieldError]:
    check_name = basics.required_name if is_name_required else basics.optional_name
    yield from check_name(port, path, "name", formats.dns_label)
    yield from basics.port_errors(port, path, "port")
    yield from basics.required_choice(port, path, "protocol", basics.PROTOCOLS)


class EventStrategy(Strategy):
    allows_create_on_update = True

    def default(self, new: Object) -> None:
        """Set absent timestamps to null."""
        for key in _TIMES:
            new.setdefault(key, None)

    def validate(self, new: Object) -> Iterator[FieldError]:
        own = new["metadata"].get("namespace", "")
        involved = (new.get("involvedObject") or {}).get("namespace", "")
        is_new_style = bool(new.get("eventTime"))
        if is_new_style:
            is_namespace_valid = bool(involved) or own in ("default", "kube-system")
        else:
            is_namespace_valid = involved == own if involved else own in ("", "default")
        if not is_namespace_valid:
            problem = "does not match event.namespace"
            yield api_errors.invalid_value("involvedObject.namespace", involved, problem)
        if is_new_style:
            yield from _new_style_errors(new)


def _new_style_errors(new: Object) -> Iterator[FieldError]:
    controller = new.get("reportingComponent") or ""
    if not controller:
        yield api_errors.required("reportingComponent")
    yield from basics.invalid_values("reportingComponent", controller, formats.qualified_name(controller))
    for key, limit in _MAX_EVENT_BYTES.items():
        if not new.get(key) and key != "message":
            yield api_errors.required(key)
        if len((new.get(key) or "").encode()) > limit:
            yield api_errors.invalid_value(key, "", f"can have at most {limit} characters")


class LeaseStrategy(Strategy):
    allows_create_on_update = True
    allows_unconditional_update = False

    def validate(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            yield api_errors.invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
        yield from basics.not_negative(spec, "spec", "leaseTransitions")


class ServiceAccountStrategy(Strategy):
    returns_deleted_object = True
