"""The settings as variables of the environment and as flags: their names, and their text → the tree that a file gives.

Whether a value is any good is checked in `configuration`, by the same rules for all sources. Nothing here reads the
environment: it is an argument.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from windlass.model.settings import Settings
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import scalars, tree
from windlass.wire.yaml.text import Position

PREFIX = "WINDLASS_"
CONFIGURATION_FILE = "WINDLASS_CONFIG"
"""Names the configuration file; whoever reads the file reads this variable."""
DEFAULTS = {"kubeApiServerAddress": "KUBE_APISERVER_ADDRESS", "kubeConfigFilePath": "KUBECONFIG"}
"""Variables that others use too, and that speak where nothing else does, as in the reference."""

_NOWHERE = Position(0, 0)
_IN_FILES_ONLY = frozenset({"pod_failure_spec"})
_SERVICE_VARIABLE = re.compile(
    r"(.+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""Kubernetes gives each pod such variables for each Service, and one of ours may be called windlass-something."""


class Setting(msgspec.Struct, frozen=True):
    """One value that can be set, also inside of a nested setting."""

    key: str
    """Where it stands in the file, such as `logObjectSnapshot.pod.onPodDeletion`."""
    attribute: str
    """The same as one Python name."""
    kind: inspect.Type
    default: Any

    @property
    def variable(self) -> str:
        return PREFIX + self.attribute.upper()

    @property
    def flag(self) -> str:
        return f"--{self.attribute.replace('_', '-')}"

    @property
    def is_boolean(self) -> bool:
        return isinstance(self.kind, inspect.BoolType)

    @property
    def is_list(self) -> bool:
        return isinstance(self.kind, inspect.VarTupleType)

    @property
    def flags(self) -> str:
        """As click wants them declared: a boolean one comes with its opposite."""
        return f"{self.flag}/--no-{self.flag.removeprefix('--')}" if self.is_boolean else self.flag


class SettingDiagnostic(Diagnostic, frozen=True):
    """A diagnostic of a value that stands in no file: it has no line, and `file` says where the value comes from."""

    def __str__(self) -> str:
        subject = f"{self.path}: " if self.path else ""
        return f"{self.file}: {self.severity}: {subject}{self.message}"


class Layer(msgspec.Struct, frozen=True):
    """The settings of one source."""

    root: tree.Mapping
    origins: dict[str, str] = {}
    """For each setting that is not from a file, where it comes from; by its key."""


def _settings(struct: type[msgspec.Struct], keys: str = "", attributes: str = "") -> Iterator[Setting]:
    described = inspect.type_info(struct)
    for field in described.fields if isinstance(described, inspect.StructType) else ():
        key, attribute = f"{keys}{field.encode_name}", f"{attributes}{field.name}"
        if isinstance(field.type, inspect.StructType):
            yield from _settings(field.type.cls, f"{key}.", f"{attribute}_")
        elif field.name not in _IN_FILES_ONLY:
            yield Setting(key, attribute, field.type, field.default)


SETTINGS = tuple(_settings(Settings))
_BY_ATTRIBUTE = {setting.attribute: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}


def with_origin(diagnostic: Diagnostic, origin: str) -> Diagnostic:
    """The same diagnostic of a value from there."""
    return SettingDiagnostic(**msgspec.structs.asdict(diagnostic.with_file(origin)))


def from_defaults(environment: Mapping[str, str]) -> Layer:
    """What variables with a wider meaning say; a file comes before them."""
    return _layer(
        (setting, _scalar(environment[name]), f"environment {name}")
        for setting in SETTINGS
        if environment.get(name := DEFAULTS.get(setting.key, ""))
    )


def from_environment(environment: Mapping[str, str]) -> Layer:
    """An empty variable counts as one that is not set: that is what deployments make of a missing value."""
    return _layer(
        (setting, _read(setting, text), f"environment {variable}")
        for variable, setting in _BY_VARIABLE.items()
        if (text := environment.get(variable, "").strip())
    )


def from_flags(flags: Mapping[str, Any]) -> Layer:
    """By attribute. None, and a list of nothing, is a flag that was not given."""
    return _layer(
        (setting, _read(setting, value), setting.flag)
        for setting, value in ((_BY_ATTRIBUTE[attribute], value) for attribute, value in flags.items())
        if value is not None and value != ()
    )


def unknown_variables(environment: Mapping[str, str]) -> Iterator[Diagnostic]:
    """A warning for each variable that looks like one of ours and is none."""
    known = (*_BY_VARIABLE, CONFIGURATION_FILE)
    for name in sorted(environment):
        rest = name.removeprefix(PREFIX)
        if rest == name or name in known or _SERVICE_VARIABLE.fullmatch(rest):
            continue
        nearest = diagnostics.nearest(name, known)
        advice = f"Did you mean {nearest}?" if nearest else "No setting has a similar name."
        message = f"there is no setting of this name: the variable means nothing. {advice}"
        yield with_origin(
            diagnostics.warning(_NOWHERE, "", message), f"environment {diagnostics.truncate(name)}"
        )


def _read(setting: Setting, value: Any) -> tree.Node:
    if setting.is_list:
        texts = (value,) if isinstance(value, str) else value
        items = [item.strip() for text in texts for item in text.split(",")]
        return tree.Sequence(tuple(_scalar(item) for item in items if item), _NOWHERE.line, _NOWHERE.column)
    means_itself = isinstance(setting.kind, inspect.StrType | inspect.EnumType)
    return _scalar(value if means_itself else _resolved(value))


def _resolved(value: scalars.Scalar) -> scalars.Scalar:
    """What the text would mean in a file. What no file can say stays text, and is found to be of the wrong type."""
    meaning = scalars.resolve(value) if isinstance(value, str) else value
    is_odd = meaning is None or (isinstance(meaning, float) and not math.isfinite(meaning))
    return str(value) if is_odd else meaning


def _layer(found: Iterable[tuple[Setting, tree.Node, str]]) -> Layer:
    nested: dict[str, Any] = {}
    origins = {}
    for setting, node, origin in found:
        *parents, last = setting.key.split(".")
        inner = nested
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = node
        origins[setting.key] = origin
    return Layer(_mapping(nested), origins)


def _mapping(nested: dict[str, Any]) -> tree.Mapping:
    entries = {key: _mapping(value) if isinstance(value, dict) else value for key, value in nested.items()}
    return tree.Mapping(entries, dict.fromkeys(entries, _NOWHERE), _NOWHERE.line, _NOWHERE.column)


def _scalar(value: scalars.Scalar) -> tree.Scalar:
    return tree.Scalar(value, _NOWHERE.line, _NOWHERE.column)
