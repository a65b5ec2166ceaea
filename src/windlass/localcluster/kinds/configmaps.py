"""ConfigMaps: keys that can be file names, no more than a mebibyte, and no change once they are immutable."""

from collections.abc import Iterator

from windlass.localcluster import failures
from windlass.localcluster.checks import data_checks
from windlass.localcluster.failures import Fault
from windlass.localcluster.strategy import Object, Strategy


class ConfigMapStrategy(Strategy):
    def validate(self, new: Object) -> Iterator[Fault]:
        data, binary = new.get("data") or {}, new.get("binaryData") or {}
        yield from data_checks.key_faults(data, "data")
        for key in data:
            if key in binary:
                yield failures.invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
        yield from data_checks.key_faults(binary, "binaryData")
        size = sum(len(value.encode()) for value in data.values()) + data_checks.size(binary)
        if size > data_checks.LIMIT:
            # The whole object is too long, and Kubernetes has no better name for it.
            yield failures.too_long("[]", data_checks.LIMIT)

    def validate_update(self, new: Object, old: Object) -> Iterator[Fault]:
        return data_checks.immutability_faults(new, old, "data", "binaryData")
