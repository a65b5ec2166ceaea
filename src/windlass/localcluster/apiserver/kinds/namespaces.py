"""The strategy of Namespace, and the status of a terminating one (the namespace controller of Kubernetes)."""

from collections import Counter
from collections.abc import Iterator

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver import metadata
from windlass.localcluster.apiserver.checks import basics
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

_OWN_FINALIZER = "kubernetes"
_NAME_LABEL = "kubernetes.io/metadata.name"


# Namespaces that cannot be deleted.
_PERMANENT = ("default", "kube-system", "kube-public")


class NamespaceStrategy(Strategy):
    marks_deletion_itself = True

    def default(self, new: Object) -> None:
        """Set the label by which selectors name a namespace."""
        if name := new["metadata"].get("name"):
            new["metadata"].setdefault("labels", {})[_NAME_LABEL] = name

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        finalizers = (new.get("spec") or {}).get("finalizers") or []
        if _OWN_FINALIZER not in finalizers:
            finalizers = [*finalizers, _OWN_FINALIZER]
        new["spec"] = {"finalizers": finalizers}
        new["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, cluster: ClusterView) -> None:
        """Keep spec.finalizers: they change through /finalize only."""
        new["spec"] = old.get("spec", {})

    def validate(self, new: Object) -> Iterator[FieldError]:
        for name in (new.get("spec") or {}).get("finalizers") or ():
            yield from basics.invalid_values("spec.finalizers", name, formats.qualified_name(name))
            yield from metadata.finalizer_name_errors(name, "spec.finalizers")

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        is_terminating = bool(new["metadata"].get("deletionTimestamp"))
        phase, expected = (
            (new.get("status") or {}).get("phase", ""),
            "Terminating" if is_terminating else "Active",
        )
        if phase != expected:
            state = "not empty" if is_terminating else "empty"
            problem = f"may only be '{expected}' if `deletionTimestamp` is {state}"
            yield api_errors.invalid_value("status.Phase", phase, problem)

    def deletion_forbidden_reason(self, old: Object) -> str:
        return "this namespace may not be deleted" if old["metadata"]["name"] in _PERMANENT else ""

    def mark_deleted(self, new: Object, cluster: ClusterView) -> None:
        new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}

    def blocks_removal(self, obj: Object) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))


def deletion_conditions(left: list[tuple[Kind, Object]], now: str) -> list[Object]:
    """Return the conditions of a terminating namespace, from the metadata of the objects that remain in it."""
    kinds = Counter(f"{kind.plural}.{kind.group}" for kind, _ in left)
    finalizers = Counter(finalizer for _, meta in left for finalizer in meta.get("finalizers", ()))
    resources = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(kinds.items()))
    holding = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            False,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            *("NamespaceDeletionGroupVersionParsingFailure", False, "ParsedGroupVersions"),
            "All legacy kube types successfully parsed",
        ),
        (
            *("NamespaceDeletionContentFailure", False, "ContentDeleted"),
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            *("NamespaceContentRemaining", bool(left), "SomeResourcesRemain" if left else "ContentRemoved"),
            f"Some resources are remaining: {resources}" if left else "All content successfully removed",
        ),
        (
            *("NamespaceFinalizersRemaining", bool(finalizers)),
            "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {holding}"
            if finalizers
            else "All content-preserving finalizers finished",
        ),
    ]
    return [
        {
            "type": kind,
            "status": str(is_true),
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for kind, is_true, reason, message in conditions
    ]


def finalized(namespace: Object) -> Object:
    """Return an empty namespace without the finalizer of this server."""
    spec = namespace.get("spec") or {}
    kept = [one for one in spec.get("finalizers") or () if one != _OWN_FINALIZER]
    # Finalizers of the propagation policy, which the deletion of the contents has completed.
    others = [
        one
        for one in namespace["metadata"].get("finalizers") or ()
        if one not in ("foregroundDeletion", "orphan")
    ]
    spec = {**spec, "finalizers": kept} if kept else {}
    return metadata.with_metadata_list({**namespace, "spec": spec}, "finalizers", others)


def with_conditions(namespace: Object, conditions: list[Object]) -> Object:
    """Return the namespace with these conditions. An unchanged condition keeps its transition time."""
    before = {one["type"]: one for one in (namespace.get("status") or {}).get("conditions") or ()}
    kept = [
        {**one, "lastTransitionTime": before[one["type"]]["lastTransitionTime"]}
        if before.get(one["type"], {}).get("status") == one["status"]
        else one
        for one in conditions
    ]
    return {**namespace, "status": {**(namespace.get("status") or {}), "conditions": kept}}
