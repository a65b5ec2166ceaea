"""Namespaces: they stay, terminating, until whoever holds them has emptied them."""

from collections.abc import Iterator

from windlass.localcluster import failures, formats, metadata
from windlass.localcluster.checks import basics
from windlass.localcluster.failures import Fault
from windlass.localcluster.kinds.strategy import Object, Strategy, World

_OWN_FINALIZER = "kubernetes"
_NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    def prepare_create(self, new: Object, world: World) -> None:
        _label(new)
        finalizers = (new.get("spec") or {}).get("finalizers") or []
        if _OWN_FINALIZER not in finalizers:
            finalizers = [*finalizers, _OWN_FINALIZER]
        new["spec"] = {"finalizers": finalizers}
        new["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, world: World) -> None:
        """The finalizers change through /finalize alone."""
        _label(new)
        new["spec"] = old.get("spec", {})

    def validate(self, new: Object) -> Iterator[Fault]:
        for name in (new.get("spec") or {}).get("finalizers") or ():
            yield from basics.each("spec.finalizers", name, formats.qualified_name(name))
            yield from metadata.finalizer_name_faults(name, "spec.finalizers")

    def validate_status(self, new: Object, old: Object) -> Iterator[Fault]:
        is_going = bool(new["metadata"].get("deletionTimestamp"))
        phase, expected = (new.get("status") or {}).get("phase", ""), "Terminating" if is_going else "Active"
        if phase != expected:
            state = "not empty" if is_going else "empty"
            problem = f"may only be '{expected}' if `deletionTimestamp` is {state}"
            yield failures.invalid_value("status.Phase", phase, problem)

    def mark_deleted(self, new: Object) -> None:
        new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}

    def is_held(self, obj: Object) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))


def _label(new: Object) -> None:
    """Selectors can name a namespace by this label, whatever else anybody wrote there."""
    name = new["metadata"].get("name")
    if name:
        new["metadata"].setdefault("labels", {})[_NAME_LABEL] = name
