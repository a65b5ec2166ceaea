"""Check the volumes of a job file: each has one source and a unique mount path."""

import functools
import re
from collections.abc import Iterator, Mapping

from windlass.jobfile import names as jobfile_names
from windlass.model.job import Volume
from windlass.wire import diagnostics, pod_schema, structural_validation
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import tree

RESERVED_PREFIX = "windlass-"
"""The prefix of volumes that Windlass adds."""
KINDS = ("hostPath", "share", "nfs", "pvc", "cephfs", "emptyDir", "configMap", "secret")

_FIELDS = structural_validation.field_names(Volume)
_PATHS = (("hostPath",), ("nfs", "path"), ("cephfs", "path"))
_OBJECTS = (("pvc",), ("configMap",), ("secret",), ("cephfs", "secret"))
_TEXTS = (("nfs", "server"), ("cephfs", "clusterID"), ("cephfs", "fsName"), ("cephfs", "secret"))
_SHARE = re.compile(r"(/[A-Za-z0-9._-]+)+/?")


def check(volumes: tree.Node, path: str) -> Iterator[Diagnostic]:
    first_lines: dict[str, int] = {}
    for name, volume in volumes.entries.items() if isinstance(volumes, tree.Mapping) else ():
        at = diagnostics.field(path, name)
        if name.startswith(RESERVED_PREFIX):
            message = f"names that begin with {RESERVED_PREFIX} are reserved: give the volume another name"
            yield diagnostics.error(volume, at, message)
        if isinstance(volume, tree.Mapping):
            yield from _check_kind(volume, at)
            yield from _check_source(volume, at)
            yield from _check_sub_path(volume.get("subPath"), diagnostics.field(at, "subPath"))
            yield from _check_place(volume.get("at"), first_lines, diagnostics.field(at, "at"))


def normalize(path: str) -> str:
    """Return an absolute path without empty parts and dots."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def volume_at(places: Mapping[str, str], path: str) -> tuple[str, str] | None:
    """Return the volume that contains a path, and the path inside it; None if no volume does."""
    normalized = normalize(path)
    containing = [name for name, at in places.items() if f"{normalized}/".startswith(f"{normalize(at)}/")]
    if not containing:
        return None
    nearest = max(containing, key=lambda name: len(normalize(places[name])))
    return nearest, normalized[len(normalize(places[nearest])) :].strip("/")


def is_absolute(text: str) -> bool:
    return text.startswith("/") and ".." not in text.split("/")


def _check_kind(volume: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    kinds = [kind for kind in KINDS if not _is_empty(volume.get(kind))]
    is_misspelt = any(
        diagnostics.nearest(key, _FIELDS) in KINDS for key in volume.entries if key not in _FIELDS
    )
    if len(kinds) == 1 or (not kinds and is_misspelt):
        return
    sources = " and ".join(kinds) or "no source"
    yield diagnostics.error(volume, path, f"found {sources}, expected exactly one of {', '.join(KINDS)}")


def _is_empty(node: tree.Node | None) -> bool:
    return node is None or tree.text_of(node) == ""


def _check_source(volume: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    for keys in _PATHS:
        node = tree.dig(volume, *keys)
        text = tree.text_of(node)
        if node is not None and text and not is_absolute(text):
            yield from structural_validation.wrong_type(
                node,
                'a path that begins with "/", without ".."',
                functools.reduce(diagnostics.field, keys, path),
            )
    for keys in _TEXTS:
        node = tree.dig(volume, *keys)
        text = tree.text_of(node)
        if node is not None and text is not None and re.fullmatch(r"\S+", text) is None:
            yield from structural_validation.wrong_type(
                node, "a name without spaces", functools.reduce(diagnostics.field, keys, path)
            )
    for keys in _OBJECTS:
        node = tree.dig(volume, *keys)
        if node is not None:
            yield from jobfile_names.check_object(node, functools.reduce(diagnostics.field, keys, path))
    yield from _check_share(volume.get("share"), diagnostics.field(path, "share"))
    yield from _check_nodes(volume, path)
    ceph_namespace = tree.dig(volume, "cephfs", "secretNamespace")
    if ceph_namespace is not None:
        yield from jobfile_names.check_namespace(
            ceph_namespace, diagnostics.field(diagnostics.field(path, "cephfs"), "secretNamespace")
        )
    empty_dir = volume.get("emptyDir")
    if isinstance(empty_dir, tree.Mapping):
        yield from pod_schema.check_type(
            empty_dir, "V1EmptyDirVolumeSource", diagnostics.field(path, "emptyDir")
        )


def _check_share(node: tree.Node | None, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if node is None or not text:
        return
    is_valid = is_absolute(text) and "." not in text.split("/") and _SHARE.fullmatch(text) is not None
    if not is_valid:
        expected = (
            'a folder of the NFS server, such as /data or /output/digits: a path that begins with "/", of letters, '
            'digits, hyphens, underscores and dots, without ".."'
        )
        yield from structural_validation.wrong_type(node, expected, path)


def _check_nodes(volume: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    nodes, at = volume.get("nodes"), diagnostics.field(path, "nodes")
    if nodes is None or not tree.items_of(nodes):
        return
    if _is_empty(volume.get("hostPath")):
        message = "nodes applies only to a hostPath, and this volume has none: remove nodes"
        yield diagnostics.error(volume.keys["nodes"], at, message)
    for index, node in enumerate(tree.items_of(nodes)):
        if tree.text_of(node) == "":
            yield from structural_validation.wrong_type(
                node, "the name of a node", diagnostics.item(at, index)
            )
        yield from jobfile_names.check_object(node, diagnostics.item(at, index))


def _check_sub_path(node: tree.Node | None, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node) or ""
    if node is not None and (text.startswith("/") or ".." in text.split("/")):
        yield from structural_validation.wrong_type(
            node, 'a relative path inside the volume, without ".."', path
        )


def _check_place(node: tree.Node | None, first_lines: dict[str, int], path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if node is None or text is None:
        return
    if not is_absolute(text) or ":" in text or normalize(text) == "/":
        yield from structural_validation.wrong_type(
            node, 'a path that begins with "/", without ".." and ":", such as /data', path
        )
        return
    if normalize(text) in first_lines:
        first = first_lines[normalize(text)]
        yield diagnostics.error(
            node,
            path,
            f"found {diagnostics.quoted(text)}, which is also the path of the volume in line {first}: give each "
            "volume its own path",
        )
    first_lines.setdefault(normalize(text), node.line)
