"""The strategy of PersistentVolumeClaim. The spec is immutable, except that a claim can be bound and can then grow."""

import copy
from collections.abc import Iterator

from windlass.k8s import api_errors, formats, quantities
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, label_selectors
from windlass.localcluster.apiserver.checks import resources as check_resources
from windlass.localcluster.apiserver.kinds import pod_spec_defaults
from windlass.localcluster.apiserver.strategy import ClusterView, Object, Strategy

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
# The finalizer that keeps a deleted claim while a pod uses it.
PROTECTION = "kubernetes.io/pvc-protection"


class ClaimStrategy(Strategy):
    returns_deleted_object = True

    def default(self, new: Object) -> None:
        pod_spec_defaults.canonicalize_resources(new.get("spec") or {})

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        meta = new["metadata"]
        if PROTECTION not in meta.get("finalizers", ()):
            meta["finalizers"] = [*meta.get("finalizers", ()), PROTECTION]
        new["status"] = {"phase": "Pending"}

    def validate(self, new: Object) -> Iterator[FieldError]:
        spec = new.get("spec") or {}
        if not spec.get("accessModes"):
            yield api_errors.required("spec.accessModes", "at least 1 access mode is required")
        yield from label_selectors.errors(spec.get("selector") or {}, "spec.selector")
        for mode in spec.get("accessModes") or ():
            if mode not in _MODES:
                yield api_errors.not_supported("spec.accessModes", mode, _MODES)
        yield from _storage_errors(_storage(spec), "spec.resources[storage]")
        yield from basics.optional_name(spec, "spec", "storageClassName", formats.dns_subdomain)
        yield from basics.optional_choice(spec, "spec", "volumeMode", _VOLUME_MODES)

    def validate_update(self, new: Object, old: Object) -> Iterator[FieldError]:
        spec, former = copy.deepcopy(new["spec"]), old["spec"]
        if not former.get("volumeName") and "volumeName" in spec:
            del spec["volumeName"]
        before, after = (_storage(one) for one in (former, spec))
        if (new.get("status") or {}).get("phase") == "Bound" and after:
            spec["resources"]["requests"]["storage"] = before
        if spec != former:
            yield api_errors.forbidden_field("spec", _IMMUTABLE)
        if quantities.parse(after) < quantities.parse(before):
            problem = "field can not be less than previous value"
            yield api_errors.forbidden_field("spec.resources.requests.storage", problem)


def _storage_errors(storage: str, field: str) -> Iterator[FieldError]:
    if not storage:
        yield api_errors.required(field)
    elif quantities.parse(storage) <= 0:
        yield api_errors.invalid_value(field, storage, "must be greater than zero")
    else:
        yield from check_resources.amount_errors("storage", storage, field)


def _storage(spec: Object) -> str:
    return str(((spec.get("resources") or {}).get("requests") or {}).get("storage", ""))
