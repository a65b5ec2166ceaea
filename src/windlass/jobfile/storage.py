"""Check the storage of a job file beyond single volumes: secrets, the NFS server, required files and loadData."""

import re
from collections.abc import Iterator

from windlass.jobfile import rules, web_addresses
from windlass.jobfile import volumes as jobfile_volumes
from windlass.model.job import LoadData
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree

MAX_NAME_LENGTH = 63
"""Maximum length of the names of Services and of label values."""
SOURCES = ("url", "folder", "command")
"""The sources of loadData."""

_ENTRY_FIELDS = structural_validation.field_names(LoadData)
_SUFFIXES = {"nfsServer": "-nfs", "loadData": "-load-data"}
"""By field: the suffix after the name of the job in the name of a Service or Job."""
_MAX_SECRET_BYTES = 1024 * 1024
_EMPTY_SOURCE = "emptyDir"
_READ_ONLY_SOURCES = ("configMap", "secret")
_SERVER_CLAIM = "nfs"
"""A cephfs volume of this name would have the same claim as the NFS server."""


def check(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    yield from _check_lengths(node, path)
    yield from _check_secrets(node, path)
    yield from _check_server(node, path)
    yield from _check_nodes(node, path)
    for index, need in enumerate(tree.items_of(node.get("needs"))):
        yield from check_volume_path(node, need, diagnostics.item(diagnostics.field(path, "needs"), index))
    for index, entry in enumerate(tree.items_of(node.get("loadData"))):
        if isinstance(entry, tree.Mapping):
            yield from _check_entry(node, entry, diagnostics.item(diagnostics.field(path, "loadData"), index))


def _check_lengths(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    name = node.get("name")
    text = tree.text_of(name)
    if name is None or text is None:
        return
    for field, suffix in _SUFFIXES.items():
        if is_set(node.get(field)) and len(text) <= MAX_NAME_LENGTH < len(text + suffix):
            message = name_too_long(text, field, suffix)
            yield diagnostics.error(name, diagnostics.field(path, "name"), message)


def name_too_long(name: str, field: str, suffix: str) -> str:
    """Return the message about a name that is too long together with the suffix that a field of the job adds."""
    return (
        f"found {diagnostics.quoted(name)} ({len(name)} characters): with {field}, a name has at most "
        f"{MAX_NAME_LENGTH - len(suffix)} characters, because {{name}}{suffix} may have {MAX_NAME_LENGTH}"
    )


# Secrets


def _check_secrets(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    secrets = node.get("secrets")
    if not isinstance(secrets, tree.Mapping):
        return
    at = diagnostics.field(path, "secrets")
    size = sum(len((tree.text_of(value) or "").encode()) for value in secrets.entries.values())
    if size > _MAX_SECRET_BYTES:
        message = (
            f"found {size} bytes, but a Secret holds {_MAX_SECRET_BYTES}: store them in files of a volume"
        )
        yield diagnostics.error(secrets, at, message)
    for name, value in secrets.entries.items():
        if name == "." or name.startswith(".."):
            message = 'invalid key of a Secret: it must not be "." or start with ".."'
            yield diagnostics.error(secrets.keys[name], diagnostics.field(at, name), message)
        if "\0" in (tree.text_of(value) or ""):
            message = (
                "found a NUL character, which a variable cannot contain: mount your own Secret as a volume"
            )
            yield diagnostics.error(value, diagnostics.field(at, name), message)
    for variables, variables_path in _variables(node, path):
        for name, position in variables.keys.items():
            if name in secrets.entries:
                message = f"{diagnostics.quoted(name)} is also defined in secrets: remove one of them"
                field = diagnostics.field(variables_path, name)
                yield diagnostics.error(position, field, message, Rule.DUPLICATE_NAME)


def _variables(node: tree.Mapping, path: str) -> Iterator[tuple[tree.Mapping, str]]:
    """Yield the variables of the job and of each role, with their paths."""
    for mapping, mapping_path in ((node, path), *rules.roles_of(node, path)):
        env = mapping.get("env")
        if isinstance(env, tree.Mapping):
            yield env, diagnostics.field(mapping_path, "env")


# NFS server and nodes


def _check_server(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    server = node.get("nfsServer")
    for name, volume in volumes_of(node).items():
        at, share = diagnostics.field(path, "volumes", name), volume.get("share")
        if share is not None and is_set(share) and server is None:
            message = (
                "a share requires the job's own NFS server: add nfsServer: {size: 10Gi}, or use nfs for an existing "
                "server"
            )
            yield diagnostics.error(share, diagnostics.field(at, "share"), message)
        if server is not None and name == _SERVER_CLAIM and is_set(volume.get("cephfs")):
            message = "the claim of the NFS server has this name: give the volume another name"
            yield diagnostics.error(volume, at, message)
    yield from rules.check_fields(server, _SERVER_RULES, diagnostics.field(path, "nfsServer"))


def _check_size(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    return rules.check_quantity(node, path, "a size above 0, such as 10Gi")


_SERVER_RULES: dict[str, rules.Check] = {
    "size": _check_size,
    "image": rules.check_image,
    "storageClass": rules.check_object_name,
}


def _check_nodes(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Require a node that has the folders of all volumes with `nodes`."""
    common: set[str] | None = None
    for name, volume in volumes_of(node).items():
        items = tree.items_of(volume.get("nodes"))
        nodes = {text for item in items if (text := tree.text_of(item))}
        if not nodes:
            continue
        common = nodes if common is None else common & nodes
        if not common:
            at = diagnostics.field(path, "volumes", name, "nodes")
            message = (
                "no node has this folder and those of the volumes above, but every task mounts all volumes"
            )
            yield diagnostics.error(volume.keys["nodes"], at, message)
            return


# Files


def _check_entry(node: tree.Mapping, entry: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    sources = [source for source in SOURCES if is_set(entry.get(source))]
    yield from rules.check_single_source(entry, sources, SOURCES, path, _ENTRY_FIELDS)
    yield from rules.check_fields(entry, _ENTRY_RULES, path)
    to, sha256 = entry.get("to"), entry.get("sha256")
    if to is not None:
        yield from check_volume_path(node, to, diagnostics.field(path, "to"), must_be_writable=True)
    if sha256 is not None and is_set(sha256) and "url" not in sources:
        message = "sha256 applies only to a url, and this entry has none: remove it"
        yield diagnostics.error(sha256, diagnostics.field(path, "sha256"), message)


def _check_command(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if (text is not None and not text.strip()) or (isinstance(node, tree.Sequence) and not node.items):
        message = "the command is empty, expected a program, such as python fetch.py"
        yield diagnostics.error(node, path, message)


def _check_url(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if not text:
        return
    file = web_addresses.file_of(text)
    if not web_addresses.is_valid_url(text):
        expected = "a URL that begins with https://, http:// or ftp://"
        yield from structural_validation.wrong_value(node, expected, path)
    elif not file or not file.isprintable():
        expected = "the URL of a file, such as https://example.com/digits.tar.gz"
        yield from structural_validation.wrong_value(node, expected, path)


_ENTRY_RULES: dict[str, rules.Check] = {
    "url": _check_url,
    "sha256": rules.text_check(
        re.compile("(?:[0-9a-fA-F]{64})?").fullmatch, "a SHA-256 checksum: 64 hexadecimal digits"
    ),
    "image": rules.check_image,
    "command": _check_command,
}


def check_volume_path(
    job: tree.Mapping, node: tree.Node, path: str, *, must_be_writable: bool = False
) -> Iterator[Diagnostic]:
    """Require a path in a volume of the job that is not an emptyDir and, for `must_be_writable`, not a configMap or
    secret."""
    text = tree.text_of(node)
    if text is None:
        return
    if not jobfile_volumes.is_absolute(text) or "\0" in text or "\n" in text:
        expected = 'a path that begins with "/", without "..", such as /data'
        yield from structural_validation.wrong_value(node, expected, path)
        return
    volumes, mount_paths = volumes_of(job), mount_paths_of(job)
    volume = jobfile_volumes.volume_at(mount_paths, text)
    if volume is None:
        known = ", ".join(map(diagnostics.truncate, mount_paths.values()))
        message = (
            f"expected a path in a volume of the job{f': {known}' if known else ', which has no volumes'}"
        )
        yield diagnostics.error(node, path, f"found {diagnostics.quoted(text)}, {message}")
        return
    name, _ = volume
    found = f"found {diagnostics.quoted(text)} in volume {name}"
    if is_set(volumes[name].get(_EMPTY_SOURCE)):
        advice = "use a volume that exists before the job starts, such as nfs, share or pvc"
        yield diagnostics.error(node, path, f"{found}, which is empty when a task starts: {advice}")
    if must_be_writable and any(is_set(volumes[name].get(source)) for source in _READ_ONLY_SOURCES):
        yield diagnostics.error(node, path, f"{found}, which is read-only: use another volume")


def mount_paths_of(job: tree.Mapping) -> dict[str, str]:
    """Return the mount paths of the volumes that have one, by volume name."""
    return {
        name: mount_path
        for name, volume in volumes_of(job).items()
        if (mount_path := tree.text_of(volume.get("at")))
    }


def volumes_of(node: tree.Mapping) -> dict[str, tree.Mapping]:
    found = node.get("volumes")
    entries = found.entries.items() if isinstance(found, tree.Mapping) else ()
    return {name: volume for name, volume in entries if isinstance(volume, tree.Mapping)}


def is_set(node: tree.Node | None) -> bool:
    """Return whether a field is set. An empty string or list counts as absent."""
    return node is not None and tree.text_of(node) != "" and node != tree.Sequence((), node.line, node.column)
