"""The strategy of Namespace, and the conditions that Kubernetes' namespace controller sets during a deletion."""

from collections import Counter
from collections.abc import Iterator

from windlass.k8s import api_errors, formats
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver import metadata
from windlass.localcluster.apiserver.checks import basics
from windlass.localcluster.apiserver.kinds.kind import Kind
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

_KUBERNETES_FINALIZER = "kubernetes"
_NAME_LABEL = "kubernetes.io/metadata.name"
# Namespaces that cannot be deleted.
_PERMANENT = ("default", "kube-system", "kube-public")
_PROPAGATION_FINALIZERS = ("foregroundDeletion", "orphan")
_CONTENT_DELETED = "All content successfully deleted, may be waiting on finalization"
# Status, reason and message of conditions that every terminating namespace has, by type.
_SUCCESSES = {
    "NamespaceDeletionDiscoveryFailure": (
        *("False", "ResourcesDiscovered", "All resources successfully discovered"),
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        *("False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    ),
    "NamespaceDeletionContentFailure": ("False", "ContentDeleted", _CONTENT_DELETED),
}


class NamespaceStrategy(Strategy):
    omits_grace_period_on_delete = True

    def default(self, new: Object) -> None:
        """Set the label that lets selectors select a namespace by name."""
        if name := new["metadata"].get("name"):
            new["metadata"].setdefault("labels", {})[_NAME_LABEL] = name

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        finalizers = (new.get("spec") or {}).get("finalizers") or []
        if _KUBERNETES_FINALIZER not in finalizers:
            finalizers = [*finalizers, _KUBERNETES_FINALIZER]
        new["spec"] = {"finalizers": finalizers}
        new["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object, cluster: ClusterView) -> None:
        """Keep the spec: spec.finalizers can be changed through /finalize only."""
        new["spec"] = old.get("spec", {})

    def validate(self, new: Object) -> Iterator[FieldError]:
        for name in (new.get("spec") or {}).get("finalizers") or ():
            yield from basics.invalid_values("spec.finalizers", name, formats.qualified_name(name))
            yield from metadata.finalizer_name_errors(name, "spec.finalizers")

    def validate_status(self, new: Object, old: Object) -> Iterator[FieldError]:
        is_terminating = bool(new["metadata"].get("deletionTimestamp"))
        phase = (new.get("status") or {}).get("phase", "")
        expected = "Terminating" if is_terminating else "Active"
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


def deletion_conditions(remaining: list[tuple[Kind, Object]], now: str) -> list[Object]:
    """Return the conditions of a terminating namespace, from the metadata of the objects that remain in it."""
    kinds = Counter(f"{kind.plural}.{kind.group}" for kind, _ in remaining)
    finalizers = Counter(finalizer for _, meta in remaining for finalizer in meta.get("finalizers", ()))
    content = ("False", "ContentRemoved", "All content successfully removed")
    finalization = ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished")
    if remaining:
        counts = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(kinds.items()))
        content = ("True", "SomeResourcesRemain", f"Some resources are remaining: {counts}")
    if finalizers:
        counts = ", ".join(
            f"{name} in {count} resource instances" for name, count in sorted(finalizers.items())
        )
        message = f"Some content in the namespace has finalizers remaining: {counts}"
        finalization = ("True", "SomeFinalizersRemain", message)
    conditions = {
        **_SUCCESSES,
        "NamespaceContentRemaining": content,
        "NamespaceFinalizersRemaining": finalization,
    }
    return [
        {
            "type": condition_type,
            "status": status,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for condition_type, (status, reason, message) in conditions.items()
    ]


def finalized(namespace: Object) -> Object:
    """Return the namespace without the finalizers that waited for the deletion of its content."""
    spec = namespace.get("spec") or {}
    remaining = [name for name in spec.get("finalizers") or () if name != _KUBERNETES_FINALIZER]
    spec = {**spec, "finalizers": remaining} if remaining else {}
    finalizers = namespace["metadata"].get("finalizers") or ()
    # The deletion of the content has completed the finalizers of the propagation policy.
    others = [name for name in finalizers if name not in _PROPAGATION_FINALIZERS]
    return metadata.with_metadata_list({**namespace, "spec": spec}, "finalizers", others)


def with_conditions(namespace: Object, conditions: list[Object]) -> Object:
    """Return the namespace with these conditions. A condition whose status is unchanged keeps its transition time."""
    status = namespace.get("status") or {}
    times = {
        (old["type"], old["status"]): old["lastTransitionTime"] for old in status.get("conditions") or ()
    }
    updated = [
        {**new, "lastTransitionTime": times.get((new["type"], new["status"]), new["lastTransitionTime"])}
        for new in conditions
    ]
    return {**namespace, "status": {**status, "conditions": updated}}
