"""Validation (`apimachinery/pkg/api/validation`) and changes of metadata, and generated names, without I/O."""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats
from windlass.k8s import metadata as k8s_metadata
from windlass.k8s.api_errors import FieldError

Object = dict[str, Any]
NameRule = Callable[[str, bool], formats.Problems]
"""Returns the problems of a name or, if the second argument is true, of a generateName prefix."""

_ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_MAX_GENERATE_NAME_LENGTH = 58
# The alphabet of Kubernetes, which has no vowels, so that no suffix spells a word.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5


def _subdomain_name(name: str, is_prefix: bool) -> formats.Problems:
    return formats.dns_subdomain(_without_dash(name) if is_prefix else name)


def _label_name(name: str, is_prefix: bool) -> formats.Problems:
    return formats.dns_label(_without_dash(name) if is_prefix else name)


def _path_segment_name(name: str, is_prefix: bool) -> formats.Problems:
    return formats.path_segment_prefix(name) if is_prefix else formats.path_segment(name)


_NAME_RULES: dict[str, NameRule] = {
    # An event is named after its object, which may be of any kind.
    "events": _path_segment_name,
    "namespaces": _label_name,
    "services": _label_name,
    "roles.rbac.authorization.k8s.io": _path_segment_name,
    "rolebindings.rbac.authorization.k8s.io": _path_segment_name,
    "clusterroles.rbac.authorization.k8s.io": _path_segment_name,
    "clusterrolebindings.rbac.authorization.k8s.io": _path_segment_name,
}


def name_rule(resource: str) -> NameRule:
    """Return the name rule of a resource (`pods`, `jobs.batch`)."""
    return _NAME_RULES.get(resource, _subdomain_name)


def generate_name(base: str, suffix: str) -> str:
    """Return a name for `generateName`. The base is truncated so that the name fits in a DNS label."""
    return base[:_MAX_GENERATE_NAME_LENGTH] + suffix


def random_suffix(randomness: Callable[[int], int]) -> str:
    """Return a random suffix. `randomness(n)` returns a number below n."""
    return "".join(_SUFFIX_ALPHABET[randomness(len(_SUFFIX_ALPHABET))] for _ in range(_SUFFIX_LENGTH))


def validate_metadata(
    obj: Mapping[str, Any], *, namespaced: bool, name_rule: NameRule, allows_any_finalizer: bool = False
) -> Iterator[FieldError]:
    """Yield the errors in the metadata of an object that is created or updated."""
    metadata = obj.get("metadata") or {}
    yield from _name_errors(metadata, name_rule)
    yield from _namespace_errors(metadata, namespaced)
    yield from _generation_errors(metadata.get("generation") or 0)
    yield from label_errors(metadata.get("labels"), "metadata.labels")
    yield from annotation_errors(metadata.get("annotations"), "metadata.annotations")
    yield from _owner_errors(metadata.get("ownerReferences") or [])
    yield from _finalizer_errors(metadata.get("finalizers") or [], allows_any_finalizer)


def is_terminating(body: bytes) -> bool:
    """Return whether a stored object is marked for deletion."""
    # Searching the text is much cheaper than decoding, but the word may occur elsewhere.
    if b'"deletionTimestamp"' not in body:
        return False
    return k8s_metadata.decode_meta(body).metadata.deletion_timestamp is not None


def with_metadata_list(obj: Object, field: str, items: list[object]) -> Object:
    """Return the object with a list in its metadata replaced; an empty list is removed."""
    meta = {key: value for key, value in obj["metadata"].items() if key != field}
    return {**obj, "metadata": {**meta, field: items} if items else meta}


def without_finalizer(obj: Object, finalizer: str) -> Object:
    others = [one for one in obj["metadata"].get("finalizers", ()) if one != finalizer]
    return with_metadata_list(obj, "finalizers", others)


def without_owners(obj: Object, uids: Container[str]) -> Object:
    others = [one for one in obj["metadata"].get("ownerReferences", ()) if one["uid"] not in uids]
    return with_metadata_list(obj, "ownerReferences", others)


def carry_over(new: Object, old: Mapping[str, Any]) -> None:
    """Copy server-set metadata from the old object, and remove unsupported fields.

    A UID and a grace period that the client sent are kept: `validate_metadata_update` rejects them if they differ.
    """
    metadata, former = new.setdefault("metadata", {}), old["metadata"]
    for key in ("managedFields", "selfLink"):
        metadata.pop(key, None)
    for key in ("creationTimestamp", "deletionTimestamp", "generation"):
        if key in former:
            metadata[key] = former[key]
    for key in ("uid", "deletionGracePeriodSeconds"):
        if key in former and metadata.get(key) in (None, ""):
            metadata[key] = former[key]


def validate_metadata_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """Return errors for changed immutable fields and for finalizers added to a terminating object.

    The new object must have been processed by `carry_over`.
    """
    metadata, former = new.get("metadata") or {}, old.get("metadata") or {}
    errors: list[FieldError] = []
    if former.get("deletionTimestamp"):
        errors += _added_finalizer_errors(metadata.get("finalizers") or [], former.get("finalizers") or [])
    for key in (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ):
        if metadata.get(key) != former.get(key):
            field = f"metadata.{key}"
            errors.append(api_errors.invalid_value(field, metadata.get(key), "field is immutable"))
    return errors


def label_errors(labels: Mapping[str, str] | None, field: str) -> Iterator[FieldError]:
    for key, value in (labels or {}).items():
        for problem in formats.qualified_name(key):
            yield api_errors.invalid_value(field, key, problem)
        for problem in formats.label_value(value):
            yield api_errors.invalid_value(field, value, problem)


def annotation_errors(annotations: Mapping[str, str] | None, field: str) -> Iterator[FieldError]:
    size = 0
    for key, value in (annotations or {}).items():
        for problem in formats.qualified_name(key.lower()):
            yield api_errors.invalid_value(field, key, problem)
        size += len(key.encode()) + len(value.encode())
    if size > _ANNOTATIONS_LIMIT:
        yield api_errors.too_long(field, _ANNOTATIONS_LIMIT)


def finalizer_name_errors(name: str, field: str) -> Iterator[FieldError]:
    """Check a finalizer of a built-in kind: it must be a standard one or have a prefix, e.g. `example.com/name`."""
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        problem = "name is neither a standard finalizer name nor is it fully qualified"
        yield api_errors.invalid_value(field, name, problem)


def _without_dash(name: str) -> str:
    """Replace the last two characters of a generateName prefix that ends with a dash by a letter: the dash is valid
    there, because a suffix follows."""
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name


def _name_errors(metadata: Mapping[str, Any], rule: NameRule) -> Iterator[FieldError]:
    base = metadata.get("generateName")
    if base:
        for problem in rule(base, True):
            yield api_errors.invalid_value("metadata.generateName", base, problem)
    name = metadata.get("name")
    if not name:
        yield api_errors.required("metadata.name", "name or generateName is required")
        return
    for problem in rule(name, False):
        yield api_errors.invalid_value("metadata.name", name, problem)


def _namespace_errors(metadata: Mapping[str, Any], namespaced: bool) -> Iterator[FieldError]:
    namespace = metadata.get("namespace")
    if not namespaced:
        if namespace:
            yield api_errors.forbidden_field("metadata.namespace", "not allowed on this type")
        return
    if not namespace:
        yield api_errors.required("metadata.namespace")
        return
    for problem in formats.dns_label(namespace):
        yield api_errors.invalid_value("metadata.namespace", namespace, problem)


def _generation_errors(generation: int) -> Iterator[FieldError]:
    if generation < 0:
        problem = "must be greater than or equal to 0"
        yield api_errors.invalid_value("metadata.generation", generation, problem)


def _owner_errors(owners: list[dict[str, Any]]) -> Iterator[FieldError]:
    field = "metadata.ownerReferences"
    controller = ""
    for index, owner in enumerate(owners):
        at = f"{field}[{index}]"
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield api_errors.required(f"{at}.{key}", "must not be empty")
        if owner.get("apiVersion", "").count("/") > 1 or owner.get("apiVersion", "").endswith("/"):
            problem = "must be <group>/<version> or <version>"
            yield api_errors.invalid_value(f"{at}.apiVersion", owner["apiVersion"], problem)
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            yield api_errors.invalid_value(at, owner, "/v1, Kind=Event is disallowed from being an owner")
        if not owner.get("controller"):
            continue
        name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
        if controller:
            problem = (
                'Only one reference can have Controller set to true. Found "true" in references for'
                f" {controller} and {name}"
            )
            yield api_errors.invalid_value(field, owners, problem)
        else:
            controller = name


def _finalizer_errors(finalizers: list[str], allows_any: bool) -> Iterator[FieldError]:
    field = "metadata.finalizers"
    for finalizer in finalizers:
        for problem in formats.qualified_name(finalizer):
            yield api_errors.invalid_value(field, finalizer, problem)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        problem = "finalizer orphan and foregroundDeletion cannot be both set"
        yield api_errors.invalid_value(field, finalizers, problem)
    if allows_any:
        return
    for index, finalizer in enumerate(finalizers):
        yield from finalizer_name_errors(finalizer, f"{field}[{index}]")


def _added_finalizer_errors(new: list[str], old: list[str]) -> Iterator[FieldError]:
    added = sorted(set(new) - set(old))
    if added:
        names = ", ".join(f'"{name}"' for name in added)
        problem = (
            "no new finalizers can be added if the object is being deleted, found new finalizers"
            f" []string{{{names}}}"
        )
        yield api_errors.forbidden_field("metadata.finalizers", problem)
