"""Acceptance of the names of a CustomResourceDefinition (the naming controller of apiextensions-apiserver).

A definition is established when it is created, unless one of its names is already accepted for another definition of
its group. In that case its names are checked again only when it is updated.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from windlass.localcluster.apiserver.strategy import ClusterView, Object

_GROUP = "apiextensions.k8s.io"
_PLURAL = "customresourcedefinitions"
_RESOURCE_NAMES = ("plural", "singular", "shortNames")
_KIND_NAMES = ("kind", "listKind")


def is_established(definition: Object) -> bool:
    return _has_condition(definition, "Established", "True")


def is_rejected(definition: Object) -> bool:
    return _has_condition(definition, "Established", "False")


def accept_names(new: Object, cluster: ClusterView) -> None:
    """Accept the names that are not accepted for another definition of the group, and set the conditions."""
    status, names = new["status"], new["spec"].get("names") or {}
    others = [
        one
        for one in cluster.objects(_GROUP, _PLURAL)
        if one["metadata"]["name"] != new["metadata"].get("name")
        and one["spec"]["group"] == new["spec"].get("group")
    ]
    accepted = {"categories": names["categories"]} if names.get("categories") else {}
    # Status, reason and message of the condition NamesAccepted.
    verdict = ("True", "NoConflicts", "no conflicts found")
    for fields in (_RESOURCE_NAMES, _KIND_NAMES):
        taken = {name for one in others for name in _names(one["status"].get("acceptedNames") or {}, fields)}
        for field in fields:
            if conflicts := [name for name in _names(names, (field,)) if name in taken]:
                reason = f"{field[0].upper()}{field[1:]}Conflict"
                verdict = ("False", reason, ", ".join(f'"{name}" is already in use' for name in conflicts))
            elif names.get(field):
                accepted[field] = names[field]
    status["acceptedNames"] = accepted
    _set_condition(status, "NamesAccepted", *verdict, cluster)
    if verdict[0] == "True":
        established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
        _set_condition(status, "Established", *established, cluster)
    elif not is_established(new):
        _set_condition(status, "Established", "False", "NotAccepted", "not all names are accepted", cluster)


def _names(names: Object, fields: Iterable[str]) -> Iterator[str]:
    for field in fields:
        value: Any = names.get(field) or []
        yield from [value] if isinstance(value, str) else value


def _has_condition(definition: Object, condition_type: str, status: str) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == condition_type and one.get("status") == status for one in conditions)


def _set_condition(
    status: Object, condition_type: str, value: str, reason: str, message: str, cluster: ClusterView
) -> None:
    former = next((one for one in status["conditions"] if one["type"] == condition_type), None)
    since = former["lastTransitionTime"] if former and former["status"] == value else cluster.now()
    others = [one for one in status["conditions"] if one["type"] != condition_type]
    condition = {
        "type": condition_type,
        "status": value,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    status["conditions"] = [*others, condition]
