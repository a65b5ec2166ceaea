"""Custom resources: what is peculiar to an object of which nothing is known but its definition."""

from collections.abc import Iterable, Iterator

from windlass.k8s import api_errors
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.kinds import scales
from windlass.localcluster.apiserver.strategy import Object, ScalePaths, Strategy

_MOST_REPLICAS = 2**31 - 1


class CustomStrategy(Strategy):
    counts_generations = True
    allows_blind_update = False
    status_may_relabel = False

    def __init__(self, *, has_status: bool, scale: ScalePaths | None = None) -> None:
        # Without the subresource, a status is a field like any other.
        self.status_fields = ("status",) if has_status else ()
        self.scale = scale

    def validate(self, new: Object) -> Iterable[Fault]:
        if self.scale is not None:
            yield from _replica_faults(new, self.scale.spec_replicas)
            yield from _replica_faults(new, self.scale.status_replicas)

    def validate_status(self, new: Object, old: Object) -> Iterable[Fault]:
        return _replica_faults(new, self.scale.status_replicas) if self.scale is not None else ()


def _replica_faults(obj: Object, path: str) -> Iterator[Fault]:
    value = scales.value_at(obj, path)
    if value is None:
        return
    if not isinstance(value, int):
        yield api_errors.invalid_value(path, value, "should be an integer")
    elif value < 0:
        yield api_errors.invalid_value(path, value, "should be a non-negative integer")
    elif value > _MOST_REPLICAS:
        yield api_errors.invalid_value(path, value, f"should be less than or equal to {_MOST_REPLICAS}")
