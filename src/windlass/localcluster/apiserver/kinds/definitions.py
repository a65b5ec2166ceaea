"""The strategies of CustomResourceDefinition and of custom resources, and the kinds that a definition adds.

The garbage collector (`controllers.garbage_collection`) deletes the objects of a terminating definition.
"""

from collections.abc import Iterable, Iterator

from windlass.k8s import api_errors
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.definitions import checks
from windlass.localcluster.apiserver.definitions import names as definitions_names
from windlass.localcluster.apiserver.kinds import scales
from windlass.localcluster.apiserver.kinds.kind import Column, Kind
from windlass.localcluster.apiserver.schemas import structural, typed
from windlass.localcluster.apiserver.schemas.defaults import DEFAULTS
from windlass.localcluster.apiserver.strategy import ClusterView, Object, ScalePaths, Strategy

_AGE = Column(
    name="Age", type="date", path=".metadata.creationTimestamp", description="When the object was created"
)
_APPROVAL = "api-approved.kubernetes.io"
# The finalizer that keeps a deleted definition until its objects are deleted.
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_TERMINATING = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionPending",
    "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
}
_MAX_REPLICAS = 2**31 - 1
_schema = typed.TypedSchema("V1CustomResourceDefinition", DEFAULTS)


class DefinitionStrategy(Strategy):
    has_generation = True
    allows_unconditional_update = False
    omits_grace_period_on_delete = True
    status_updates_metadata = False

    def default(self, new: Object) -> None:
        spec = new.setdefault("spec", {})
        names = spec.get("names") or {}
        if kind := names.get("kind"):
            names["singular"] = names.get("singular") or kind.lower()
            names["listKind"] = names.get("listKind") or f"{kind}List"
        spec.setdefault("conversion", {"strategy": "None"})
        if spec.get("preserveUnknownFields") is False:
            del spec["preserveUnknownFields"]
        for version in spec.get("versions") or ():
            version.setdefault("served", False)
            version.setdefault("storage", False)

    def prepare_create(self, new: Object, cluster: ClusterView) -> None:
        new["status"] = {"conditions": []}
        definitions_names.accept_names(new, cluster)
        _add_stored_version(new)

    def prepare_update(self, new: Object, old: Object, cluster: ClusterView) -> None:
        new.setdefault("status", {"conditions": []})
        if new["spec"].get("names") != new["status"].get("acceptedNames"):
            definitions_names.accept_names(new, cluster)
        _add_stored_version(new)

    def mark_deleted(self, new: Object, cluster: ClusterView) -> None:
        meta, status = new["metadata"], new.setdefault("status", {})
        if CLEANUP not in meta.get("finalizers", ()):
            meta["finalizers"] = [*meta.get("finalizers", ()), CLEANUP]
        conditions = [one for one in status.get("conditions") or () if one["type"] != "Terminating"]
        status["conditions"] = [*conditions, {**_TERMINATING, "lastTransitionTime": cluster.now()}]

    def validate_create(self, new: Object) -> Iterable[FieldError]:
        return (*checks.name_errors(new), *checks.reserved_group_errors(new.get("spec") or {}))

    def validate(self, new: Object) -> Iterable[FieldError]:
        errors = [
            *checks.spec_errors(new["spec"]),
            *checks.stored_version_errors(new),
            *_group_errors(new),
            *checks.preservation_errors(new["spec"]),
        ]
        # Stored definitions are compiled at each start: reject one that is incomplete or cannot be compiled.
        return errors or _schema.validate(new) or _compile_errors(new)

    def validate_update(self, new: Object, old: Object) -> Iterable[FieldError]:
        return checks.update_errors(new, old)


class CustomStrategy(Strategy):
    has_generation = True
    allows_unconditional_update = False
    status_updates_metadata = False

    def __init__(self, *, has_status: bool, scale: ScalePaths | None = None) -> None:
        # Without the subresource, status is an ordinary field.
        self.status_fields = ("status",) if has_status else ()
        self.scale = scale

    def validate(self, new: Object) -> Iterable[FieldError]:
        if self.scale is not None:
            yield from _replica_errors(new, self.scale.spec_replicas)
            yield from _replica_errors(new, self.scale.status_replicas)

    def validate_status(self, new: Object, old: Object) -> Iterable[FieldError]:
        return _replica_errors(new, self.scale.status_replicas) if self.scale is not None else ()


def _replica_errors(obj: Object, path: str) -> Iterator[FieldError]:
    value = scales.value_at(obj, path)
    if value is not None and not isinstance(value, int):
        yield api_errors.invalid_value(path, value, "should be an integer")
    elif (value or 0) < 0:
        yield api_errors.invalid_value(path, value, "should be a non-negative integer")
    elif (value or 0) > _MAX_REPLICAS:
        yield api_errors.invalid_value(path, value, f"should be less than or equal to {_MAX_REPLICAS}")


def _group_errors(definition: Object) -> Iterable[FieldError]:
    group = (definition.get("spec") or {}).get("group") or ""
    is_protected = group.endswith((".k8s.io", ".kubernetes.io"))
    if is_protected and not (definition["metadata"].get("annotations") or {}).get(_APPROVAL):
        field = f"metadata.annotations[{_APPROVAL}]"
        yield api_errors.required(field, "protected groups must have approval annotation")


def _compile_errors(definition: Object) -> Iterable[FieldError]:
    try:
        kinds_of(definition)
    except RecursionError:
        yield api_errors.invalid_value("spec.versions", "<schema>", "the schema is nested too deeply")


def kinds_of(definition: Object) -> tuple[Kind, ...]:
    """Return a kind for each version of a valid definition.

    Return none if the definition is not established, or if it was stored in a reserved group by an earlier release.
    """
    is_reserved = definition["spec"]["group"] in checks.RESERVED_GROUPS
    if is_reserved or definitions_names.is_rejected(definition):
        return ()
    return tuple(_kind(definition, version) for version in definition["spec"]["versions"])


def _kind(definition: Object, version: Object) -> Kind:
    spec, meta = definition["spec"], definition["metadata"]
    names, openapi = spec["names"], version["schema"]["openAPIV3Schema"]
    subresources = version.get("subresources") or {}
    scale, has_status = subresources.get("scale"), subresources.get("status") is not None
    return Kind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=(*(["status"] if has_status else []), *(["scale"] if scale else [])),
        schema=structural.StructuralSchema(openapi),
        published_schema=openapi,
        columns=tuple(map(_column, version.get("additionalPrinterColumns") or ())) or (_AGE,),
        selectable_fields=tuple(
            field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()
        ),
        is_terminating="deletionTimestamp" in meta,
        is_served=bool(version.get("served")),
        reads_through_schema=meta.get("generation", 1) > 1,
        strategy=CustomStrategy(has_status=has_status, scale=_scale_paths(scale) if scale else None),
    )


def _column(column: Object) -> Column:
    path = column["jsonPath"]
    default = f"Custom resource definition column (in JSONPath format): {path}"
    return Column(
        name=column["name"],
        type=column["type"],
        path=path,
        description=column.get("description") or default,
        format=column.get("format", ""),
        priority=column.get("priority", 0),
    )


def _scale_paths(scale: Object) -> ScalePaths:
    return ScalePaths(
        spec_replicas=scale["specReplicasPath"],
        status_replicas=scale["statusReplicasPath"],
        selector=scale.get("labelSelectorPath", ""),
    )


def _add_stored_version(new: Object) -> None:
    stored: list[str] = new["status"].setdefault("storedVersions", [])
    name = next((each.get("name") for each in new["spec"].get("versions") or () if each.get("storage")), None)
    if name is not None and name not in stored:
        stored.append(name)
