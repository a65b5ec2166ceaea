"""Settings as environment variables and flags, converted to the same tree as a file.

`settings.file` validates the values. Functions get the environment as an argument.
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
"""The variable with the path of the configuration file."""
FALLBACK_VARIABLES = {"kubeApiServerAddress": "KUBE_APISERVER_ADDRESS", "kubeConfigFilePath": "KUBECONFIG"}
"""Common variables that are used if nothing else is set, as in FrameworkController."""

_NOWHERE = Position(0, 0)
_IN_FILES_ONLY = frozenset({"pod_failure_spec"})
_SERVICE_VARIABLE = re.compile(
    r"(.+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
"""Variables that Kubernetes sets for Services, whose names may start with windlass."""


class Setting(msgspec.Struct, frozen=True):
    """A setting, or a field of a nested setting."""

    key: str
    """The path in the file, e.g. `logObjectSnapshot.pod.onPodDeletion`."""
    attribute: str
    """The path as a Python name."""
    type: inspect.Type
    default: Any

    @property
    def variable(self) -> str:
        return PREFIX + self.attribute.upper()

    @property
    def flag(self) -> str:
        return f"--{self.attribute.replace('_', '-')}"

    @property
    def is_boolean(self) -> bool:
        return isinstance(self.type, inspect.BoolType)

    @property
    def is_list(self) -> bool:
        return isinstance(self.type, inspect.VarTupleType)

    @property
    def flag_declaration(self) -> str:
        """The declaration for click. A boolean flag includes its opposite."""
        return f"{self.flag}/--no-{self.flag.removeprefix('--')}" if self.is_boolean else self.flag


class SettingDiagnostic(Diagnostic, frozen=True):
    """A diagnostic of a value outside a file. It has no line, and `file` is the source of the value."""

    def __str__(self) -> str:
        subject = f"{self.path}: " if self.path else ""
        return f"{self.file}: {self.severity}: {subject}{self.message}"


class Layer(msgspec.Struct, frozen=True):
    """The settings of one source, or of all sources merged."""

    root: tree.Mapping
    origins: dict[str, str] = {}
    """The sources of settings that are not from a file, by key."""


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
    """Return the diagnostic with the source of its value."""
    return SettingDiagnostic(**msgspec.structs.asdict(diagnostic.with_file(origin)))


def from_fallback_variables(environment: Mapping[str, str]) -> Layer:
    """Return the settings from common variables. A file overrides them."""
    return _layer(
        (setting, _scalar(environment[name]), f"environment {name}")
        for setting in SETTINGS
        if environment.get(name := FALLBACK_VARIABLES.get(setting.key, ""))
    )


def from_environment(environment: Mapping[str, str]) -> Layer:
    """Return the settings from variables with the prefix. An empty variable counts as unset."""
    return _layer(
        (setting, _read(setting, text), f"environment {variable}")
        for variable, setting in _BY_VARIABLE.items()
        if (text := environment.get(variable, "").strip())
    )


def from_flags(flags: Mapping[str, Any]) -> Layer:
    """Return the settings from flags, which are given by attribute. None and an empty list count as unset."""
    return _layer(
        (setting, _read(setting, value), setting.flag)
        for setting, value in ((_BY_ATTRIBUTE[attribute], value) for attribute, value in flags.items())
        if value is not None and value != ()
    )


def unknown_variables(environment: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Warn about unknown variables with the prefix."""
    known = (*_BY_VARIABLE, CONFIGURATION_FILE)
    for name in sorted(environment):
        rest = name.removeprefix(PREFIX)
        if rest == name or name in known or _SERVICE_VARIABLE.fullmatch(rest):
            continue
        nearest = diagnostics.nearest(name, known)
        advice = f"Did you mean {nearest}?" if nearest else "No setting has a similar name."
        message = f"unknown setting: the variable is ignored. {advice}"
        yield with_origin(
            diagnostics.warning(_NOWHERE, "", message), f"environment {diagnostics.truncate(name)}"
        )


def _read(setting: Setting, value: Any) -> tree.Node:
    if setting.is_list:
        texts = (value,) if isinstance(value, str) else value
        items = [item.strip() for text in texts for item in text.split(",")]
        return tree.Sequence(tuple(_scalar(item) for item in items if item), _NOWHERE.line, _NOWHERE.column)
    is_text = isinstance(setting.type, inspect.StrType | inspect.EnumType)
    return _scalar(value if is_text else _resolved(value))


def _resolved(value: scalars.Scalar) -> scalars.Scalar:
    """Return the value that the text would have in a file. Null, NaN and infinity stay text, and are
    rejected later."""
    parsed = scalars.resolve(value) if isinstance(value, str) else value
    is_unsupported = parsed is None or (isinstance(parsed, float) and not math.isfinite(parsed))
    return str(value) if is_unsupported else parsed


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
