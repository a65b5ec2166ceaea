"""Validation of volumes: a unique name and at most one source."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from windlass.k8s import api_errors, formats, quantities
from windlass.k8s.api_errors import FieldError
from windlass.localcluster.apiserver.checks import basics, field_references

_HOST_PATH_TYPES = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_MAX_TOKEN_SECONDS = 2**32
_MIN_TOKEN_SECONDS = 600

Source = Mapping[str, Any]


def errors(volumes: list[dict[str, Any]], path: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for volume, at in basics.indexed(volumes, path):
        found = [*_volume_errors(volume, at)]
        name = volume.get("name", "")
        if name in names:
            found.append(api_errors.duplicate(f"{at}.name", name))
        if not found:
            names.add(name)
        yield from found


def valid_volumes(volumes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the volumes without errors, by name. Only they can be mounted."""
    return {volume["name"]: volume for volume in reversed(volumes) if not [*_volume_errors(volume, "")]}


def _volume_errors(volume: Source, path: str) -> Iterator[FieldError]:
    known = [key for key in _SOURCES if key in volume]
    sources = known + [key for key in volume if key not in (*_SOURCES, "name")]
    for extra in sources[1:]:
        yield api_errors.forbidden_field(f"{path}.{extra}", "may not specify more than 1 volume type")
    if sources:
        first = sources[0]
        if first in _SOURCES:
            yield from _SOURCES[first](volume[first] or {}, f"{path}.{first}")
    yield from basics.required_name(volume, path, "name", formats.dns_label)


def _empty_dir_errors(source: Source, path: str) -> Iterator[FieldError]:
    if "sizeLimit" in source and quantities.parse(source["sizeLimit"]) < 0:
        problem = "SizeLimit field must be a valid resource quantity"
        yield api_errors.forbidden_field(f"{path}.sizeLimit", problem)


def _host_path_errors(source: Source, path: str) -> Iterator[FieldError]:
    if not source.get("path"):
        yield api_errors.required(f"{path}.path")
        return
    yield from parent_path_errors(source["path"], f"{path}.path")
    yield from basics.choice(source, path, "type", _HOST_PATH_TYPES)


def _config_map_or_secret_check(name_field: str) -> Callable[[Source, str], Iterator[FieldError]]:
    """Return the check of a ConfigMap or Secret volume."""

    def check(source: Source, path: str) -> Iterator[FieldError]:
        yield from basics.required_fields(source, path, name_field)
        yield from _mode_errors(source, "defaultMode", path)
        yield from _items_errors(source, path)

    return check


def _claim_errors(source: Source, path: str) -> Iterator[FieldError]:
    yield from basics.required_fields(source, path, "claimName")


def _nfs_errors(source: Source, path: str) -> Iterator[FieldError]:
    yield from basics.required_fields(source, path, "server", "path")
    if not source.get("path", "").startswith("/"):
        yield api_errors.invalid_value(f"{path}.path", source.get("path", ""), "must be an absolute path")


def _downward_errors(source: Source, path: str) -> Iterator[FieldError]:
    yield from _mode_errors(source, "defaultMode", path)
    for file in source.get("items") or ():
        yield from _downward_file_errors(file, path)


def _projected_errors(source: Source, path: str) -> Iterator[FieldError]:
    yield from _mode_errors(source, "defaultMode", path)
    taken: set[str] = set()
    for projection, at in basics.indexed(source.get("sources"), f"{path}.sources"):
        yield from _projection_errors(projection, at)
        yield from _duplicate_path_errors(projection, taken, path)
        if len(projection) > 1:
            yield api_errors.forbidden_field(at, "may not specify more than 1 volume type")


def _projection_errors(projection: Source, path: str) -> Iterator[FieldError]:
    for kind in ("secret", "configMap"):
        if kind in projection:
            yield from basics.required_fields(projection[kind], f"{path}.{kind}", "name")
            yield from _items_errors(projection[kind], f"{path}.{kind}")
    for file in (projection.get("downwardAPI") or {}).get("items") or ():
        yield from _downward_file_errors(file, f"{path}.downwardAPI")
    token = projection.get("serviceAccountToken")
    if token is None:
        return
    seconds, field = token.get("expirationSeconds", 0), f"{path}.serviceAccountToken.expirationSeconds"
    if seconds < _MIN_TOKEN_SECONDS:
        yield api_errors.invalid_value(field, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _MAX_TOKEN_SECONDS:
        yield api_errors.invalid_value(field, seconds, "may not specify a duration larger than 2^32 seconds")
    yield from basics.required_fields(token, f"{path}.serviceAccountToken", "path")


def _duplicate_path_errors(projection: Source, taken: set[str], path: str) -> Iterator[FieldError]:
    for kind in ("secret", "configMap", "downwardAPI"):
        source = projection.get(kind) or {}
        for item in source.get("items") or ():
            file = item.get("path")
            if file in taken:
                yield api_errors.invalid_value(path, source.get("name", file), "conflicting duplicate paths")
            elif file:
                taken.add(file)


def _items_errors(source: Source, path: str) -> Iterator[FieldError]:
    for item, at in basics.indexed(source.get("items"), f"{path}.items"):
        yield from basics.required_fields(item, at, "key", "path")
        yield from _file_path_errors(item.get("path", ""), f"{at}.path")
        yield from _mode_errors(item, "mode", at)


def _downward_file_errors(file: Source, path: str) -> Iterator[FieldError]:
    yield from basics.required_fields(file, path, "path")
    yield from _file_path_errors(file.get("path", ""), f"{path}.path")
    if "fieldRef" in file:
        yield from field_references.field_ref_errors(file, path, field_references.VOLUME_FIELDS)
        if "resourceFieldRef" in file:
            problem = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield api_errors.invalid_value(path, "resource", problem)
    elif "resourceFieldRef" in file:
        yield from field_references.resource_field_ref_errors(file, path, in_volume=True)
    else:
        yield api_errors.required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode_errors(file, "mode", path)


def _mode_errors(source: Source, key: str, path: str) -> Iterator[FieldError]:
    if not 0 <= (source.get(key) or 0) <= 0o777:
        yield api_errors.invalid_value(f"{path}.{key}", source[key], _MODE)


def _file_path_errors(file: str, field: str) -> Iterator[FieldError]:
    yield from relative_path_errors(file, field)
    if file.startswith("..") and not file.startswith("../"):
        yield api_errors.invalid_value(field, file, "must not start with '..'")


def relative_path_errors(file: str, field: str) -> Iterator[FieldError]:
    """Check that a path is relative and does not leave its directory."""
    if file.startswith("/"):
        yield api_errors.invalid_value(field, file, "must be a relative path")
    yield from parent_path_errors(file, field)


def parent_path_errors(file: str, field: str) -> Iterator[FieldError]:
    if ".." in file.split("/"):
        yield api_errors.invalid_value(field, file, "must not contain '..'")


# Volume sources in the order in which Kubernetes checks them: if a volume has several, all but the first are rejected.
# Other sources, e.g. of clouds and storage systems, are stored unchecked, since the kubelet here cannot mount them.
_SOURCES: dict[str, Callable[[Source, str], Iterator[FieldError]]] = {
    "emptyDir": _empty_dir_errors,
    "hostPath": _host_path_errors,
    "secret": _config_map_or_secret_check("secretName"),
    "nfs": _nfs_errors,
    "persistentVolumeClaim": _claim_errors,
    "downwardAPI": _downward_errors,
    "configMap": _config_map_or_secret_check("name"),
    "projected": _projected_errors,
}
