"""Leases: who leads, and until when."""

from collections.abc import Iterator

from windlass.k8s import api_errors
from windlass.k8s.api_errors import Fault
from windlass.localcluster.apiserver.strategy import Object, Strategy


class LeaseStrategy(Strategy):
    creates_on_update = True
    allows_blind_update = False

    def validate(self, new: Object) -> Iterator[Fault]:
        spec = new.get("spec") or {}
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            yield api_errors.invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
        if transitions is not None and transitions < 0:
            problem = "must be greater than or equal to 0"
            yield api_errors.invalid_value("spec.leaseTransitions", transitions, problem)
