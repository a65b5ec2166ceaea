"""Secrets: text that becomes data, and what must be in a secret of a known type."""

import base64
from collections.abc import Iterator

import msgspec

from windlass.k8s import api_errors
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import basics
from windlass.localcluster.apiserver.checks import data as check_data
from windlass.localcluster.apiserver.strategy import Object, Strategy, World

_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


class SecretStrategy(Strategy):
    def prepare_create(self, new: Object, world: World) -> None:
        _take_in_text(new)

    def prepare_update(self, new: Object, old: Object, world: World) -> None:
        _take_in_text(new)

    def validate(self, new: Object) -> Iterator[Fault]:
        data: dict[str, str] = new.get("data") or {}
        yield from check_data.key_faults(data, "data")
        if check_data.size(data) > check_data.LIMIT:
            yield api_errors.too_long("data", check_data.LIMIT)
        yield from _type_faults(new, data)

    def validate_update(self, new: Object, old: Object) -> Iterator[Fault]:
        yield from basics.unchanged("type", new.get("type"), old.get("type"))
        yield from check_data.immutability_faults(new, old, "data")


def _take_in_text(new: Object) -> None:
    """`stringData` is for writing only: it goes into the data, and wins there."""
    for key, text in (new.pop("stringData", None) or {}).items():
        new.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


def _type_faults(new: Object, data: dict[str, str]) -> Iterator[Fault]:
    match new.get("type"):
        case "kubernetes.io/service-account-token":
            if not (new["metadata"].get("annotations") or {}).get(_SERVICE_ACCOUNT):
                yield api_errors.required(f"metadata.annotations[{_SERVICE_ACCOUNT}]")
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson" as kind:
            yield from _docker_faults(data, _DOCKER_KEYS[kind])
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                # The two field names are as odd in Kubernetes.
                yield api_errors.required("data[username]")
                yield api_errors.required("data[password]")
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                yield api_errors.required("data[ssh-privatekey]")
        case "kubernetes.io/tls":
            for key in ("tls.crt", "tls.key"):
                if key not in data:
                    yield api_errors.required(f"data[{key}]")


def _docker_faults(data: dict[str, str], key: str) -> Iterator[Fault]:
    if key not in data:
        yield api_errors.required(f"data[{key}]")
        return
    try:
        msgspec.json.decode(base64.b64decode(data[key]), type=dict)
    except msgspec.MsgspecError:
        problem = "must be a JSON object"
        yield api_errors.invalid_value(f"data[{key}]", "<secret contents redacted>", problem)
