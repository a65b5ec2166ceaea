"""Check the storage of a job file beyond single volumes: secrets, the NFS server, required files and loadData."""

import re
from collections.abc import Iterator

from windlass.jobfile import names as jobfile_names
from windlass.jobfile import volumes as jobfile_volumes
from windlass.jobfile import web_addresses
from windlass.wire import diagnostics, pod_schema, structural_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree

MAX_NAME_LENGTH = 63
"""The limit of names of Services and of labels."""
SOURCES = ("url", "folder", "command")
"""The sources of loadData."""

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_ZERO = re.compile(r"[+-]?[0.]+(?:[A-Za-z].*)?")
_SUFFIXES = {"nfsServer": "-nfs", "loadData": "-load-data"}
"""Suffixes of names of Services and Jobs after the name of the job."""
_MAX_SECRET_BYTES = 1024 * 1024
_TASK_VOLUME = "emptyDir"
_READ_ONLY = ("configMap", "secret")
_SERVER_VOLUME = "nfs"


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
            yield diagnostics.error(
                name,
                diagnostics.field(path, "name"),
                name_too_long(text, field, suffix),
            )


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
            yield diagnostics.error(
                secrets.keys[name],
                diagnostics.field(at, name),
                'invalid key of a Secret: it must not be "." or start with ".."',
            )
        if "\0" in (tree.text_of(value) or ""):
            message = (
                "found a NUL character, which a variable cannot contain: mount your own Secret as a volume"
            )
            yield diagnostics.error(value, diagnostics.field(at, name), message)
    for variables, where in _variables(node, path):
        for name, place in variables.keys.items():
            if name in secrets.entries:
                message = f"{diagnostics.quoted(name)} is also defined in secrets: remove one of them"
                yield diagnostics.error(place, diagnostics.field(where, name), message, Rule.DUPLICATE_NAME)


def _variables(node: tree.Mapping, path: str) -> Iterator[tuple[tree.Mapping, str]]:
    """Yield the variables of the job and of each role, with their paths."""
    roles = node.get("roles")
    holders = [(node, path)]
    for name, role in roles.entries.items() if isinstance(roles, tree.Mapping) else ():
        if isinstance(role, tree.Mapping):
            holders.append((role, diagnostics.field(diagnostics.field(path, "roles"), name)))
    for holder, where in holders:
        env = holder.get("env")
        if isinstance(env, tree.Mapping):
            yield env, diagnostics.field(where, "env")


# NFS server and nodes


def _check_server(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    server, at = node.get("nfsServer"), diagnostics.field(path, "nfsServer")
    for name, volume in volumes_of(node).items():
        where = diagnostics.field(diagnostics.field(path, "volumes"), name)
        share = volume.get("share")
        if share is not None and is_set(share) and server is None:
            yield diagnostics.error(
                share,
                diagnostics.field(where, "share"),
                "a share requires the job's own NFS server: add nfsServer: {size: 10Gi}, or use nfs for an existing "
                "server",
            )
        if server is not None and name == _SERVER_VOLUME and is_set(volume.get("cephfs")):
            yield diagnostics.error(
                volume, where, "the claim of the NFS server has this name: give the volume another name"
            )
    if not isinstance(server, tree.Mapping):
        return
    size, image, storage_class = server.get("size"), server.get("image"), server.get("storageClass")
    if isinstance(size, tree.Scalar) and not isinstance(size.value, bool) and not _is_amount(size):
        yield from structural_validation.wrong_type(
            size, "a size above 0, such as 10Gi", diagnostics.field(at, "size")
        )
    if image is not None:
        yield from jobfile_names.check_image(image, diagnostics.field(at, "image"))
    if storage_class is not None:
        yield from jobfile_names.check_object(storage_class, diagnostics.field(at, "storageClass"))


def _is_amount(size: tree.Scalar) -> bool:
    text = str(size.value)
    return pod_schema.is_quantity(size) and not text.startswith("-") and _ZERO.fullmatch(text) is None


def _check_nodes(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Require a node that has the folders of all volumes."""
    common: set[str] | None = None
    for name, volume in volumes_of(node).items():
        items = tree.items_of(volume.get("nodes"))
        nodes = {text for item in items if (text := tree.text_of(item))}
        if not nodes:
            continue
        common = nodes if common is None else common & nodes
        if not common:
            at = diagnostics.field(diagnostics.field(diagnostics.field(path, "volumes"), name), "nodes")
            message = (
                "no node has this folder and those of the volumes above, but every task mounts all volumes"
            )
            yield diagnostics.error(volume.keys["nodes"], at, message)
            return


# Files


def _check_entry(node: tree.Mapping, entry: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    found = [source for source in SOURCES if is_set(entry.get(source))]
    if len(found) != 1:
        sources = " and ".join(found) or "no source"
        yield diagnostics.error(entry, path, f"found {sources}, expected exactly one of {', '.join(SOURCES)}")
    to, url, sha256, image = (entry.get(field) for field in ("to", "url", "sha256", "image"))
    if to is not None:
        yield from check_volume_path(node, to, diagnostics.field(path, "to"), is_written=True)
    if url is not None and is_set(url):
        yield from _check_url(url, diagnostics.field(path, "url"))
    if sha256 is not None and is_set(sha256):
        yield from _check_sha256(sha256, diagnostics.field(path, "sha256"), is_of_url="url" in found)
    if image is not None:
        yield from jobfile_names.check_image(image, diagnostics.field(path, "image"))
    command = entry.get("command")
    is_blank = (tree.text_of(command) or "x").strip() == ""
    if command is not None and (is_blank or (isinstance(command, tree.Sequence) and not command.items)):
        message = "the command is empty, expected a program, such as python fetch.py"
        yield diagnostics.error(command, diagnostics.field(path, "command"), message)


def _check_url(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if text is None:
        return
    file = web_addresses.file_of(text)
    if not web_addresses.is_complete(text):
        yield from structural_validation.wrong_type(
            node, "a URL that begins with https://, http:// or ftp://", path
        )
    elif not file or not file.isprintable():
        expected = "the URL of a file, such as https://example.com/digits.tar.gz"
        yield from structural_validation.wrong_type(node, expected, path)


def _check_sha256(node: tree.Node, path: str, *, is_of_url: bool) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if text is not None and _SHA256.fullmatch(text) is None:
        yield from structural_validation.wrong_type(node, "a SHA-256 checksum: 64 hexadecimal digits", path)
    if not is_of_url:
        yield diagnostics.error(
            node, path, "sha256 applies only to a url, and this entry has none: remove it"
        )


def check_volume_path(
    node: tree.Mapping, place: tree.Node, path: str, *, is_written: bool = False
) -> Iterator[Diagnostic]:
    """Check a path in a volume that all tasks of the job share."""
    text = tree.text_of(place)
    if text is None:
        return
    if not jobfile_volumes.is_absolute(text) or "\0" in text or "\n" in text:
        yield from structural_validation.wrong_type(
            place, 'a path that begins with "/", without "..", such as /data', path
        )
        return
    volumes = volumes_of(node)
    places = {name: at for name, volume in volumes.items() if (at := tree.text_of(volume.get("at")))}
    found = jobfile_volumes.volume_at(places, text)
    if found is None:
        known = (
            f": {', '.join(diagnostics.truncate(at) for at in places.values())}"
            if places
            else ", which has no volumes"
        )
        yield diagnostics.error(
            place, path, f"found {diagnostics.quoted(text)}, expected a path in a volume of the job{known}"
        )
        return
    name, _ = found
    if is_set(volumes[name].get(_TASK_VOLUME)):
        yield diagnostics.error(
            place,
            path,
            f"found {diagnostics.quoted(text)} in volume {name}, which is empty when a task starts: use a volume that "
            "exists before, such as nfs, share or pvc",
        )
    if is_written and any(is_set(volumes[name].get(kind)) for kind in _READ_ONLY):
        yield diagnostics.error(
            place,
            path,
            f"found {diagnostics.quoted(text)} in volume {name}, which is read-only: use another volume",
        )


def volumes_of(node: tree.Mapping) -> dict[str, tree.Mapping]:
    found = node.get("volumes")
    entries = found.entries.items() if isinstance(found, tree.Mapping) else ()
    return {name: volume for name, volume in entries if isinstance(volume, tree.Mapping)}


def is_set(node: tree.Node | None) -> bool:
    """Return whether a field is set. An empty string counts as absent."""
    return node is not None and tree.text_of(node) != "" and node != tree.Sequence((), node.line, node.column)
