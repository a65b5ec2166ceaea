"""The result of converting one object of another system: a job file with comments, notes and additional objects.

A converter fills a `Draft`. The job file is checked and decoded afterwards like any other.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job, Role
from windlass.wire import diagnostics, structural_validation

Keys = tuple[str | int, ...]
"""The path of a field, e.g. `("spec", "tasks", 0, "name")`."""
StartCondition = tuple[str, str, int | None, Keys]
"""A role to wait for, the condition, the minimum number of tasks if not all, and the path in the original."""

ROLES_ANNOTATION = "windlass.dev/original-roles"
"""On a Framework: the original names of its roles if they differ, e.g. `dataprep=data-prep`."""
POLICY_ANNOTATION = "windlass.dev/scheduling-policy"
"""On a Framework: the scheduling policy of the original, as JSON, for a scheduler that supports gangs."""


_JOB_FIELDS = structural_validation.field_names(Job)
_ROLE_FIELDS = structural_validation.field_names(Role)


class NoteKind(StrEnum):
    MAPPED = "mapped"
    """The field is converted; the note says to what, or which choice was made."""
    NO_EFFECT = "no effect"
    REFUSED = "refused"
    """The object cannot be converted with this field."""


class FieldNote(msgspec.Struct, frozen=True):
    """What became of a field of the original."""

    kind: NoteKind
    keys: Keys
    text: str

    @property
    def path(self) -> str:
        return path_of(self.keys)


class Conversion(msgspec.Struct, frozen=True):
    api_version: str
    kind: str
    document: Json
    """The fields of the job file."""
    comments: Mapping[Keys, str] = {}
    """Comments by path in the job file."""
    origins: Mapping[Keys, Keys] = {}
    """Paths in the original by path in the job file. Fields below them have the same relative path in both."""
    notes: tuple[FieldNote, ...] = ()
    objects: tuple[Json, ...] = ()
    """Objects that the original system would have created, e.g. Services. They are deleted with the job."""
    used: tuple[Json, ...] = ()
    """Other objects of the file that became part of the job, and are not created."""
    mapped_fields: int = 0
    """Number of given fields that are mapped."""

    @property
    def is_refused(self) -> bool:
        return any(note.kind is NoteKind.REFUSED for note in self.notes)

    def origin(self, keys: Keys) -> Keys:
        """Return the path in the original that a path of the job file comes from; empty if it has none."""
        for end in range(len(keys), 0, -1):
            if keys[:end] in self.origins:
                return (*self.origins[keys[:end]], *keys[end:])
        return ()


class Draft:
    """A conversion in progress.

    `original` is the object to convert, and `others` are the other objects of its file.
    """

    def __init__(self, original: Json, others: Sequence[Json] = ()) -> None:
        self.original = original
        self.others = others
        metadata = _mapping(original.get("metadata"))
        self.name: str = metadata.get("name") or ""
        self.namespace: str = metadata.get("namespace") or ""
        self.spec = _mapping(original.get("spec"))
        self.document: Json = {}
        self.objects: list[Json] = []
        self.used: list[Json] = []
        self._comments: dict[Keys, str] = {}
        self._origins: dict[Keys, Keys] = {}
        self._notes: list[FieldNote] = []
        self._roles: dict[str, str] = {}
        self._put_metadata(metadata)

    def _put_metadata(self, metadata: Json) -> None:
        for key in ("name", "namespace", "labels"):
            if metadata.get(key):
                self.put((key,), metadata[key], ("metadata", key))
        kept = {
            key: value
            for key, value in _mapping(metadata.get("annotations")).items()
            if key != "kubectl.kubernetes.io/last-applied-configuration"
        }
        origin = f"{self.original.get('kind')}/{self.name}"
        self.put(("annotations",), {**kept, names.CONVERTED_ANNOTATION: origin}, ("metadata", "annotations"))

    def put(self, keys: Keys, value: Any, origin: Keys = (), comment: str = "") -> None:
        """Set a field of the job file. `origin` is the path of the field in the original that it comes from."""
        *parents, key = keys
        target: Any = self.document
        for parent in parents:
            target = target.setdefault(parent, {})
        target[key] = value
        if origin:
            self._origins[keys] = origin
        if comment:
            self._comments[keys] = comment

    def map_origin(self, keys: Keys, origin: Keys) -> None:
        """Set the path in the original that a path of the job file comes from."""
        self._origins[keys] = origin

    def merge(self, keys: Keys, value: Json, origin: Keys = (), comment: str = "") -> None:
        """Merge a mapping into a field of the job file; items of lists are matched by their field `name`."""
        target: Any = self.document
        for key in keys:
            target = target.setdefault(key, {})
        _merge(target, value)
        if origin:
            self._origins.setdefault(keys, origin)
        if comment:
            self._comments[keys] = comment

    def get(self, *keys: str | int) -> Any:
        """Return a field of the original's spec; None if it is absent."""
        value: Any = self.spec
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def note(self, origin: Keys, text: str) -> None:
        """Report a choice that was made for a field."""
        self._notes.append(FieldNote(NoteKind.MAPPED, origin, text))

    def no_effect(self, origin: Keys, reason: str) -> None:
        """Report a field that has no effect in Windlass."""
        self._notes.append(FieldNote(NoteKind.NO_EFFECT, origin, reason))

    def refuse(self, origin: Keys, advice: str) -> None:
        """Report a field or value that cannot be converted, and what to do."""
        self._notes.append(FieldNote(NoteKind.REFUSED, origin, advice))

    @property
    def is_refused(self) -> bool:
        return any(note.kind is NoteKind.REFUSED for note in self._notes)

    def annotate(self, key: str, value: str) -> None:
        self.document["annotations"][key] = value

    def role_name(self, original: str) -> str:
        """Return the name of the role: lower-case letters and digits of the original name, unique in the job."""
        for name, taken_by in self._roles.items():
            if taken_by == original:
                return name
        base = re.sub("[^a-z0-9]", "", original.lower())[:60] or "role"
        name, number = base, 1
        while name in self._roles:
            number += 1
            name = f"{base}{number}"
        self._roles[name] = original
        if name != original.lower():
            renamed = {own: theirs for own, theirs in self._roles.items() if own != theirs.lower()}
            self.annotate(ROLES_ANNOTATION, ",".join(f"{own}={theirs}" for own, theirs in renamed.items()))
            self._comments[("roles", name)] = (
                f"{original} in the original: names of roles have no hyphens here"
            )
        return name

    def framework(self, fields: Json, origin: Keys = (), comment: str = "") -> None:
        """Merge fields into the spec of the Framework that is rendered from the job file."""
        self.merge(("framework",), fields, origin, comment)

    def framework_role(self, role: str, fields: Json) -> None:
        """Merge fields into a task role of the Framework."""
        self.framework({"taskRoles": [{"name": role, **fields}]})

    def start_after(self, role: str, conditions: Sequence[StartCondition]) -> None:
        """Let a role start after others.

        The job file has no number: with one, all conditions are written into the Framework, whose list replaces that
        of the job file.
        """
        if all(count is None for _, _, count, _ in conditions):
            for name, condition, _, origin in conditions:
                self.put(("roles", role, "after", name), condition, origin)
            return
        written = [
            {"taskRole": name, "condition": condition} | ({} if count is None else {"minTaskCount": count})
            for name, condition, count, _ in conditions
        ]
        self.framework_role(role, {"startAfter": written})

    def headless_service(self, name: str, selector: Mapping[str, str], ports: Mapping[str, int]) -> None:
        """Add a headless Service, whose name resolves to the addresses of pods, ready or not."""
        spec: Json = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.FRAMEWORK_NAME: self.name, **selector},
        }
        if ports:
            spec["ports"] = [{"name": port, "port": number} for port, number in ports.items()]
        self.objects.append(
            {"apiVersion": "v1", "kind": "Service", "metadata": self.metadata_of(name), "spec": spec}
        )

    def metadata_of(self, name: str) -> Json:
        """Return the metadata of an additional object, with the label by which it is deleted with the job."""
        namespace = {"namespace": self.namespace} if self.namespace else {}
        return {"name": name, **namespace, "labels": {names.JOB_LABEL: self.name}}

    def conversion(self, notes: Sequence[FieldNote] = (), mapped_fields: int = 0) -> Conversion:
        """Return the result. `notes` and `mapped_fields` are those of the walk over the given fields."""
        return Conversion(
            str(self.original.get("apiVersion")),
            str(self.original.get("kind")),
            _ordered(self.document),
            self._comments,
            self._origins,
            (*notes, *self._notes),
            tuple(self.objects),
            tuple(self.used),
            mapped_fields,
        )


def _mapping(value: Any) -> Json:
    """Return a mapping; an empty one for another value, which `Fields.types` reports."""
    return value if isinstance(value, dict) else {}


def _ordered(document: Json) -> Json:
    """Return the job file with its fields in the order of the documentation."""
    ordered = {key: document[key] for key in _JOB_FIELDS if key in document}
    if "roles" in ordered:
        ordered["roles"] = {
            name: {key: role[key] for key in _ROLE_FIELDS if key in role}
            for name, role in ordered["roles"].items()
        }
    return ordered


def path_of(keys: Keys) -> str:
    """Return a path as diagnostics show it."""
    path = ""
    for key in keys:
        path = diagnostics.item(path, key) if isinstance(key, int) else diagnostics.field(path, key)
    return path


def _merge(target: Json, value: Json) -> None:
    for key, item in value.items():
        present = target.get(key)
        if isinstance(item, dict) and isinstance(present, dict):
            _merge(present, item)
        elif isinstance(item, list) and isinstance(present, list):
            _merge_lists(present, item)
        else:
            target[key] = item


def _merge_lists(target: list[Any], items: list[Any]) -> None:
    by_name = {each["name"]: each for each in target if isinstance(each, dict) and "name" in each}
    for item in items:
        known = by_name.get(item.get("name")) if isinstance(item, dict) else None
        if known is None:
            target.append(item)
        else:
            _merge(known, item)
