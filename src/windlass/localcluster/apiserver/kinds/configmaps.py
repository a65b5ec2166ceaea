"""ConfigMaps: keys that can be file names, no more than a mebibyte, and no change once they are immutable."""

from collections.abc import Iterator

from windlass.k8s import api_errors
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.checks import data as check_data
from windlass.localcluster.apiserver.strategy import Object, Strategy


class ConfigMapStrategy(Strategy):
    def validate(self, new: Object) -> Iterator[Fault]:
        data, binary = new.get("data") or {}, new.get("binaryData") or {}
        yield from check_data.key_faults(data, "data")
        for key in data:
            if key in binary:
                yield api_errors.invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
        yield from check_data.key_faults(binary, "binaryData")
        size = sum(len(value.encode()) for value in data.values()) + check_data.size(binary)
        if size > check_data.LIMIT:
            # The whole object is too long, and Kubernetes has no better name for it.
            yield api_errors.too_long("[]", check_data.LIMIT)

    def validate_update(self, new: Object, old: Object) -> Iterator[Fault]:
        return check_data.immutability_faults(new, old, "data", "binaryData")
