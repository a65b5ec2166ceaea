"""Parse the target of an upload: a local directory, an NFS share, or a PersistentVolumeClaim."""

import posixpath
import re

import msgspec

from windlass.k8s.formats import is_object_name
from windlass.model import names

FORMS = (
    "/PATH, a local directory, e.g. a mounted share",
    "nfs://SERVER/PATH, an exported directory of an NFS server",
    "pvc://CLAIM[/FOLDER], the volume of a PersistentVolumeClaim",
)
_is_server = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\]").fullmatch


class LocalShare(msgspec.Struct, frozen=True):
    """A local directory, for which no cluster is needed."""

    path: str

    def __str__(self) -> str:
        return self.path


class Nfs(msgspec.Struct, frozen=True):
    server: str
    path: str

    def __str__(self) -> str:
        return f"nfs://{self.server}{self.path}"


class Claim(msgspec.Struct, frozen=True):
    claim: str
    """The name of a PersistentVolumeClaim."""
    folder: str = ""
    """Directory in the volume."""

    def __str__(self) -> str:
        return f"pvc://{self.claim}/{self.folder}".rstrip("/")


MountedShare = Nfs | Claim
"""Targets that a loader pod mounts."""
Share = LocalShare | MountedShare


def parse(text: str) -> Share:
    """Parse one of FORMS, or the short form CLAIM[:FOLDER]. Raises ValueError."""
    scheme, has_scheme, rest = text.partition("://")
    if text.startswith("/"):
        return LocalShare(posixpath.normpath("/" + text.lstrip("/")))
    if not has_scheme:
        name, _, folder = text.partition(":")
        return _claim(name, folder, text)
    if scheme == "pvc":
        name, _, folder = rest.partition("/")
        return _claim(name, folder, text)
    if scheme == "nfs":
        return _nfs(rest, text)
    raise ValueError(_error_message(text))


def project_name_error(name: str) -> str | None:
    """Return why a project name is invalid; None if it is valid. Jobs and labels contain the name."""
    if re.fullmatch(names.DNS_LABEL_PATTERN, name):
        return None
    return (
        f"PROJECT: found {name!r}, expected lower-case letters, digits and hyphens, with a letter or digit at both "
        "ends, and at most 63 characters"
    )


def _claim(name: str, folder: str, text: str) -> Claim:
    if not is_object_name(name):
        raise ValueError(_error_message(text))
    return Claim(name, _normalized(folder, text).strip("/"))


def _nfs(rest: str, text: str) -> Nfs:
    server, has_path, path = rest.partition("/")
    if not has_path or not _is_server(server):
        raise ValueError(_error_message(text))
    return Nfs(server, "/" + _normalized(path, text).strip("/"))


def _normalized(folder: str, text: str) -> str:
    """Normalize a path in the share. Raises ValueError for a path with `..` or NUL."""
    parts = folder.split("/")
    if ".." in parts or "\0" in folder:
        raise ValueError(f"found {text!r}, which is outside of the share: expected a directory in it")
    return "/".join(part for part in parts if part not in ("", "."))


def _error_message(text: str) -> str:
    return f"found {text!r}, expected one of: " + "; ".join(FORMS)
