"""Reads and merges kubeconfig files, and determines whether other users could have written them.

A kubeconfig can name commands to run and files to send to a server. Owner and mode are read from the open file, so that
the file cannot be replaced between the check and its use.
"""

import os
import shlex
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from windlass import file_owners
from windlass.kubeapi.errors import AccessError
from windlass.wire.yaml import dump, tree
from windlass.wire.yaml.parse import Limit, parse
from windlass.wire.yaml.text import MAX_BYTES

_LIMIT = Limit(100_000, "remove the entries that you do not use")
_SECTIONS = ("clusters", "contexts", "users")


class Origin(msgspec.Struct, frozen=True):
    """The file that an entry of the merged configuration comes from."""

    owner: int
    distrust: str
    """Why the file is not trusted: another user could have written it. Empty if it is trusted."""

    def is_private(self, file: os.stat_result) -> bool:
        """Return whether a file must not be sent to the server in this kubeconfig, because its author could be another
        user who may not read the file."""
        return bool(self.distrust) and (file.st_uid != self.owner or file.st_uid == os.geteuid())


class Entry(msgspec.Struct, frozen=True):
    """A cluster, a context or a user. `value` is that of the file, so that changes to it can be saved."""

    name: str
    value: dict[str, Any]
    path: str


class Merged:
    """The content of several files, merged like kubectl: the first entry of a name is used."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.origins: dict[str, Origin] = {}
        self.current_context = ""
        self._files: dict[str, dict[str, Any]] = {}
        self._entries: dict[str, dict[str, Entry]] = {section: {} for section in _SECTIONS}
        for path in paths:
            self._read(path)

    def context(self, name: str) -> Entry | None:
        return self._entries["contexts"].get(name)

    def cluster(self, name: str) -> Entry | None:
        return self._entries["clusters"].get(name)

    def user(self, name: str) -> Entry | None:
        return self._entries["users"].get(name)

    @property
    def context_names(self) -> list[str]:
        return list(self._entries["contexts"])

    def save(self, path: str) -> None:
        Path(path).write_bytes(dump.dump(self._files[path]))

    def _read(self, path: str) -> None:
        with Path(path).open("rb") as file:
            info = os.fstat(file.fileno())
            self.origins[path] = Origin(info.st_uid, _distrust(path, info))
            config = self._files[path] = _parsed(path, file.read(MAX_BYTES + 1))
        self.current_context = self.current_context or config.get("current-context") or ""
        for section, entries in self._entries.items():
            for name, value in _named(path, config, section):
                entries.setdefault(name, Entry(name, value, path))


def _named(path: str, config: dict[str, Any], section: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the names and values of a section: its items are e.g. {name: a, cluster: {…}}."""
    try:
        for item in config.get(section) or ():
            yield item["name"], item.get(section.removesuffix("s")) or {}
    except (AttributeError, KeyError, TypeError) as error:
        raise AccessError(
            f"invalid kubeconfig: {path}: {section} must be a list of mappings with a name"
        ) from error


def _parsed(path: str, data: bytes) -> dict[str, Any]:
    parsed = parse(data, _LIMIT)
    problems = (parsed.failure, *(each for document in parsed.documents for each in document.diagnostics))
    problem = next(filter(None, problems), None)
    if problem is not None:
        raise AccessError(f"invalid kubeconfig: {path}:{problem.line}: {problem.message}")
    config = tree.plain(parsed.documents[0].root) if len(parsed.documents) == 1 else None
    if not isinstance(config, dict):
        raise AccessError(f"invalid kubeconfig: {path} must contain one mapping")
    return config


def _distrust(path: str, info: os.stat_result) -> str:
    """Return why a file is not trusted; empty if it is trusted.

    Files of root and, with sudo, of the calling user are trusted, unless other users can change or replace them.
    """
    if info.st_uid not in file_owners.trusted():
        return f"belongs to another user (UID {info.st_uid}). Make a copy of it if you trust its content"
    if stat.S_ISREG(info.st_mode) and file_owners.others_can_write(info):
        return (
            f"can be changed by other users ({_mode(info)}). Check it and run: chmod go-w {shlex.quote(path)}"
        )
    for folder in sorted({str(Path(path).absolute().parent), str(Path(path).resolve().parent)}):
        found = Path(folder).stat()
        if found.st_uid not in file_owners.trusted():
            return (
                f"is in a folder of another user (UID {found.st_uid}), {folder}. "
                "Make a copy of it if you trust its content"
            )
        if file_owners.others_can_replace_files(found):
            return (
                f"can be replaced by other users: they can change the folder {folder} ({_mode(found)}). "
                f"Check the file and run: chmod go-w {shlex.quote(folder)}"
            )
    return ""


def _mode(info: os.stat_result) -> str:
    return f"mode {stat.S_IMODE(info.st_mode):04o}"
