"""The class of service that a pod gets: which pods go last when a node runs out of something."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from windlass.k8s import quantities
from windlass.localcluster.apiserver.kinds import pod_spec_defaults

_COUNTED = ("cpu", "memory")
_Amounts = dict[str, Decimal]


def of(spec: dict[str, Any]) -> str:
    """Guaranteed, when every container has limits and requests as much; BestEffort, when none asks for anything."""
    requests: _Amounts = {}
    limits: _Amounts = {}
    all_are_limited = True
    for container in pod_spec_defaults.containers_of(spec):
        resources = container.get("resources") or {}
        _add(requests, _asked(resources.get("requests") or {}))
        own_limits = _asked(resources.get("limits") or {})
        _add(limits, own_limits)
        all_are_limited = all_are_limited and len(own_limits) == len(_COUNTED)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if all_are_limited and requests == limits else "Burstable"


def _asked(amounts: Mapping[str, str]) -> _Amounts:
    parsed = {name: quantities.parse(amounts[name]) for name in _COUNTED if name in amounts}
    return {name: amount for name, amount in parsed.items() if amount > 0}


def _add(total: _Amounts, amounts: _Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, Decimal(0)) + amount
