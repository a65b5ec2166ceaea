"""The files of configMap, secret, downwardAPI and projected volumes."""

import base64
import posixpath
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

import msgspec

from windlass.localcluster.kubelet.containers import downward, errors
from windlass.localcluster.kubelet.containers.errors import SetupError
from windlass.localcluster.kubelet.containers.facts import Lookup, PodFacts
from windlass.model.base import Json

_DEFAULT_MODE = 0o644
_MAX_PATH = 4096
_MAX_NAME = 255


class VolumeFile(msgspec.Struct, frozen=True):
    content: bytes
    mode: int


TokenSource = Callable[[Json], str]
"""Function from a `serviceAccountToken` projection to its token."""


class _Origin(msgspec.Struct, frozen=True):
    """The objects and values from which the content of volumes is derived."""

    pod: Json
    lookup: Lookup
    facts: PodFacts
    token: TokenSource


Files = dict[str, VolumeFile]


def has_generated_files(volume: Json) -> bool:
    return any(type_ in volume for type_ in _SOURCES)


def files(volume: Json, pod: Json, lookup: Lookup, facts: PodFacts, token: TokenSource) -> Files:
    """Return the files, by relative path, of a volume for which `has_generated_files` is true."""
    type_ = next(type_ for type_ in _SOURCES if type_ in volume)
    source = volume[type_] or {}
    try:
        found = _SOURCES[type_](
            source, source.get("defaultMode", _DEFAULT_MODE), _Origin(pod, lookup, facts, token)
        )
        return _with_clean_paths(found)
    except SetupError as error:
        raise errors.failed_mount(volume["name"], error.message) from None


def _config_map(source: Json, mode: int, origin: _Origin) -> Files:
    found = _object("ConfigMap", source.get("name", ""), source, origin.lookup)
    contents = {key: text.encode() for key, text in (found.get("data") or {}).items()}
    for key, encoded in (found.get("binaryData") or {}).items():
        contents.setdefault(key, base64.b64decode(encoded))
    return _selected(contents, source, mode, "configmap references non-existent config key")


def _secret(source: Json, mode: int, origin: _Origin) -> Files:
    # The field is secretName in a volume and name in a projection.
    name = source.get("secretName") or source.get("name", "")
    found = _object("Secret", name, source, origin.lookup)
    contents = {key: base64.b64decode(encoded) for key, encoded in (found.get("data") or {}).items()}
    return _selected(contents, source, mode, "references non-existent secret key")


def _downward(source: Json, mode: int, origin: _Origin) -> Files:
    return {
        item["path"]: VolumeFile(_downward_text(item, origin).encode(), item.get("mode", mode))
        for item in source.get("items") or ()
    }


def _downward_text(item: Json, origin: _Origin) -> str:
    if "fieldRef" in item:
        text = downward.field(origin.pod, item["fieldRef"]["fieldPath"], origin.facts)
    else:
        text = downward.resource(origin.pod, None, item["resourceFieldRef"], origin.facts)
    # The kubelet sorts the lines of every file, even of a single annotation.
    return "\n".join(sorted(text.split("\n")))


def _token(source: Json, mode: int, origin: _Origin) -> Files:
    return {source["path"]: VolumeFile(origin.token(source).encode(), mode)}


def _projected(source: Json, mode: int, origin: _Origin) -> Files:
    """Merge the files of all sources. Later sources take precedence. All errors are reported together."""
    found: Files = {}
    problems: dict[str, None] = {}
    for projection in source.get("sources") or ():
        try:
            for type_, part in projection.items():
                if type_ not in _PROJECTIONS:
                    raise SetupError(f"projected source {type_} is not supported on this cluster")
                found |= _PROJECTIONS[type_](part or {}, mode, origin)
        except SetupError as error:
            problems[error.message] = None
    if problems:
        raise SetupError(next(iter(problems)) if len(problems) == 1 else f"[{', '.join(problems)}]")
    return found


def _object(kind: str, name: str, source: Json, lookup: Lookup) -> Json:
    found = lookup(kind, name)
    if found is None and not source.get("optional"):
        raise errors.not_found(kind, name)
    return found or {}


def _selected(contents: Mapping[str, bytes], source: Json, mode: int, missing_key: str) -> Files:
    """Return the files of the selected `items`, or of all keys. `missing_key` begins the message for a missing key."""
    items = source.get("items")
    if not items:
        return {key: VolumeFile(content, mode) for key, content in contents.items()}
    found: Files = {}
    for item in items:
        if item["key"] in contents:
            found[item["path"]] = VolumeFile(contents[item["key"]], item.get("mode", mode))
        elif not source.get("optional"):
            raise SetupError(f"{missing_key}: {item['key']}")
    return found


def _with_clean_paths(found: Files) -> Files:
    for path in found:
        _check_path(path)
    clean = {posixpath.normpath(path): file for path, file in found.items()}
    for path in clean:
        parent = next((str(each) for each in PurePosixPath(path).parents if str(each) in clean), None)
        if parent is not None:
            raise SetupError(f"invalid path: {path} is below {parent}, which is a file")
    return clean


def _check_path(path: str) -> None:
    names = path.split("/")
    if posixpath.normpath(path) == ".":
        raise SetupError(f'invalid path: must not be empty: "{path}"')
    if path.startswith("/"):
        raise SetupError(f"invalid path: must be relative path: {path}")
    if len(path.encode()) > _MAX_PATH:
        raise SetupError(f"invalid path: must be less than or equal to {_MAX_PATH} characters")
    if ".." in names:
        raise SetupError(f"invalid path: must not contain '..': {path}")
    if any(len(name.encode()) > _MAX_NAME for name in names):
        raise SetupError(f"invalid path: filenames must be less than or equal to {_MAX_NAME} characters")
    if names[0].startswith(".."):
        raise SetupError(f"invalid path: must not start with '..': {path}")


_Source = Callable[[Json, int, _Origin], Files]
_COMMON: dict[str, _Source] = {"configMap": _config_map, "secret": _secret, "downwardAPI": _downward}
_PROJECTIONS = _COMMON | {"serviceAccountToken": _token}
_SOURCES = _COMMON | {"projected": _projected}
