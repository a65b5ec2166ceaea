"""Checks the volumes of a job file: each has one source and a unique mount path."""

import re
from collections.abc import Iterator, Mapping

from windlass.jobfile import rules
from windlass.model.job import Volume
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import tree

RESERVED_PREFIX = "windlass-"
"""The prefix of volumes that Windlass adds."""
SOURCES = ("hostPath", "share", "nfs", "pvc", "cephfs", "emptyDir", "configMap", "secret")

_FIELDS = structural_validation.field_names(Volume)
_SHARE = re.compile(r"(/[A-Za-z0-9._-]+)+/?")


def check(volumes: tree.Node, path: str) -> Iterator[Diagnostic]:
    first_lines: dict[str, int] = {}
    for name, volume in volumes.entries.items() if isinstance(volumes, tree.Mapping) else ():
        at = diagnostics.field(path, name)
        if name.startswith(RESERVED_PREFIX):
            message = f"names that begin with {RESERVED_PREFIX} are reserved: give the volume another name"
            yield diagnostics.error(volume, at, message)
        if isinstance(volume, tree.Mapping):
            sources = [source for source in SOURCES if not _is_empty(volume.get(source))]
            yield from rules.check_single_source(volume, sources, SOURCES, at, _FIELDS)
            for check_field, fields in _RULES:
                for keys in (field.split(".") for field in fields):
                    node = tree.dig(volume, *keys)
                    if node is not None:
                        yield from check_field(node, diagnostics.field(at, *keys))
            yield from _check_nodes(volume, at)
            yield from _check_mount_path(volume.get("at"), first_lines, diagnostics.field(at, "at"))


def normalize(path: str) -> str:
    """Return an absolute path without empty and "." components."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def volume_at(mount_paths: Mapping[str, str], path: str) -> tuple[str, str] | None:
    """Return the name of the volume that contains a path, and the path inside it; None if there is no such volume."""
    normalized = normalize(path)
    containing = [
        name
        for name, mount_path in mount_paths.items()
        if f"{normalized}/".startswith(f"{normalize(mount_path)}/")
    ]
    if not containing:
        return None
    nearest = max(containing, key=lambda name: len(normalize(mount_paths[name])))
    return nearest, normalized[len(normalize(mount_paths[nearest])) :].strip("/")


def is_absolute(text: str) -> bool:
    """Return whether a path begins with "/" and has no ".." component."""
    return text.startswith("/") and ".." not in text.split("/")


def _is_empty(node: tree.Node | None) -> bool:
    return node is None or tree.text_of(node) == ""


_check_path = rules.text_check(
    lambda text: not text or is_absolute(text), 'a path that begins with "/", without ".."'
)
_check_text = rules.text_check(re.compile(r"\S+").fullmatch, "a name without spaces")
_check_share = rules.text_check(
    lambda text: (
        not text or (is_absolute(text) and "." not in text.split("/") and _SHARE.fullmatch(text) is not None)
    ),
    'a folder of the NFS server, such as /data or /output/digits: a path that begins with "/", of letters, digits, '
    'hyphens, underscores and dots, without ".."',
)
_check_sub_path = rules.text_check(
    lambda text: not text.startswith("/") and ".." not in text.split("/"),
    'a relative path inside the volume, without ".."',
)
_RULES: tuple[tuple[rules.Check, tuple[str, ...]], ...] = (
    (_check_path, ("hostPath", "nfs.path", "cephfs.path")),
    (_check_text, ("nfs.server", "cephfs.clusterID", "cephfs.fsName", "cephfs.secret")),
    (rules.check_object_name, ("pvc", "configMap", "secret", "cephfs.secret")),
    (_check_share, ("share",)),
    (rules.check_namespace, ("cephfs.secretNamespace",)),
    (rules.type_check("V1EmptyDirVolumeSource"), ("emptyDir",)),
    (_check_sub_path, ("subPath",)),
)
"""Each check, and the fields of a volume that it applies to."""


def _check_nodes(volume: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    nodes, at = volume.get("nodes"), diagnostics.field(path, "nodes")
    if nodes is None or not tree.items_of(nodes):
        return
    if _is_empty(volume.get("hostPath")):
        message = "nodes applies only to a hostPath, and this volume has none: remove nodes"
        yield diagnostics.error(volume.keys["nodes"], at, message)
    for index, node in enumerate(tree.items_of(nodes)):
        if tree.text_of(node) == "":
            yield from structural_validation.wrong_value(
                node, "the name of a node", diagnostics.item(at, index)
            )
        yield from rules.check_object_name(node, diagnostics.item(at, index))


def _check_mount_path(node: tree.Node | None, first_lines: dict[str, int], path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if node is None or text is None:
        return
    if not is_absolute(text) or ":" in text or normalize(text) == "/":
        yield from structural_validation.wrong_value(
            node, 'a path that begins with "/", without ".." and ":", such as /data', path
        )
        return
    if normalize(text) in first_lines:
        message = (
            f"found {diagnostics.quoted(text)}, which is also the path of the volume in line "
            f"{first_lines[normalize(text)]}: give each volume its own path"
        )
        yield diagnostics.error(node, path, message)
    first_lines.setdefault(normalize(text), node.line)
