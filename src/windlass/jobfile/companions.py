"""Check the companions of a job file: folders, users, passwords, names and ports."""

import re
import warnings
from collections.abc import Callable, Iterator

import msgspec

from windlass.jobfile import names as jobfile_names
from windlass.jobfile import resources, storage
from windlass.jobfile import volumes as jobfile_volumes
from windlass.model.companions import (
    HUB_INTERNAL_PORT,
    Companion,
    Hub,
    Jupyter,
    PasswordFrom,
    TensorBoard,
)
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree

MAX_USER_LENGTH = 64

_PORTS = {
    Companion.TENSORBOARD: TensorBoard().port,
    Companion.JUPYTER: Jupyter().port,
    Companion.HUB: Hub().port,
}
SOURCES = structural_validation.field_names(PasswordFrom)
"""The sources of a password."""
_PASSWORD = "password"  # noqa: S105
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_NAMES = re.compile(r"[\s/]")

Check = Callable[[tree.Node, str], Iterator[Diagnostic]]


def check(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    found: dict[Companion, tree.Mapping] = {}
    for companion in Companion:
        written, at = node.entries.get(companion), diagnostics.field(path, companion)
        if isinstance(written, tree.Scalar) and written.value is None:
            message = f"no value: write {companion}: {{}} for the defaults, or remove the line"
            yield diagnostics.error(node.keys[companion], at, message)
        elif isinstance(written, tree.Mapping):
            found[companion] = written
            yield from _check_length(node, companion, path)
            yield from _check_fields(written, at)
    yield from _check_ports(found, path)
    if (board := found.get(Companion.TENSORBOARD)) is not None:
        yield from _check_logdir(node, board, path)
        yield from _check_service(node, board, path)
    if (jupyter := found.get(Companion.JUPYTER)) is not None:
        yield from _check_folder(node, jupyter, diagnostics.field(path, Companion.JUPYTER))
    if (hub := found.get(Companion.HUB)) is not None:
        yield from _check_folder(node, hub, diagnostics.field(path, Companion.HUB))
        yield from _check_users(hub, diagnostics.field(path, Companion.HUB))


def is_password_diagnostic(diagnostic: Diagnostic, path: str) -> bool:
    """Return whether a structural diagnostic is about a password, which `check` reports with more advice."""
    places = (diagnostics.field(path, companion) for companion in Companion)
    return diagnostic.path in {diagnostics.field(place, _PASSWORD) for place in places}


# Common fields


def _check_fields(companion: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    for field, rule in _RULES.items():
        value = companion.get(field)
        if value is not None:
            yield from rule(value, diagnostics.field(path, field))
    if _PASSWORD in companion.entries:
        yield diagnostics.error(
            companion.keys[_PASSWORD],
            diagnostics.field(path, _PASSWORD),
            "do not write a password in a job file, which others can read: write passwordFrom: {env: NAME} or "
            "{file: PATH}, or remove it to generate a password that is shown once",
        )


def _check_length(node: tree.Mapping, companion: Companion, path: str) -> Iterator[Diagnostic]:
    name = node.get("name")
    text = tree.text_of(name)
    if name is None or text is None:
        return
    if len(text) <= storage.MAX_NAME_LENGTH < len(f"{text}-{companion}"):
        yield diagnostics.error(
            name,
            diagnostics.field(path, "name"),
            storage.name_too_long(text, companion, f"-{companion}"),
        )


def _check_ports(found: dict[Companion, tree.Mapping], path: str) -> Iterator[Diagnostic]:
    """Require distinct ports, because the pods of a local cluster may share one address."""
    taken = {HUB_INTERNAL_PORT: "the hub's internal API"} if Companion.HUB in found else {}
    for companion, written in found.items():
        node = written.get("port")
        port = node.value if isinstance(node, tree.Scalar) and type(node.value) is int else _PORTS[companion]
        if port in taken:
            at = diagnostics.field(diagnostics.field(path, companion), "port")
            message = f"found {port}, which is also the port of {taken[port]}: choose another port"
            yield diagnostics.error(node or written, at, message)
        taken.setdefault(port, str(companion))


def _check_password_from(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Mapping):
        return
    found = [source for source in SOURCES if storage.is_set(node.get(source))]
    is_misspelt = any(diagnostics.nearest(key, SOURCES) for key in node.entries if key not in SOURCES)
    if len(found) != 1 and not (is_misspelt and not found):
        sources = " and ".join(found) or "no source"
        yield diagnostics.error(node, path, f"found {sources}, expected exactly one of {', '.join(SOURCES)}")
    variable, file, secret = (node.get(source) for source in ("env", "file", "secret"))
    text = tree.text_of(variable)
    if variable is not None and text and not _VARIABLE.fullmatch(text):
        message = "expected the name of a variable, such as JUPYTER_PASSWORD, not the password itself"
        yield diagnostics.error(variable, diagnostics.field(path, "env"), message, Rule.WRONG_VALUE)
    if file is not None and "\0" in (tree.text_of(file) or ""):
        yield from structural_validation.wrong_type(
            file, "the path of a file", diagnostics.field(path, "file")
        )
    if secret is not None:
        yield from jobfile_names.check_object(secret, diagnostics.field(path, "secret"))


def _check_config(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if text is None:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "config", "exec", dont_inherit=True)
    except SyntaxError as error:
        yield diagnostics.error(
            node, path, f"invalid Python in line {error.lineno or 1} of the config: {error.msg}"
        )
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        yield diagnostics.error(node, path, f"invalid Python: {error}")


_RULES: dict[str, Check] = {
    "image": jobfile_names.check_image,
    "userImage": jobfile_names.check_image,
    "resources": resources.check,
    "serviceAccount": jobfile_names.check_object,
    "passwordFrom": _check_password_from,
    "config": _check_config,
}


# Folders


def _check_logdir(node: tree.Mapping, board: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    written, at = (
        board.get("logdir"),
        diagnostics.field(diagnostics.field(path, Companion.TENSORBOARD), "logdir"),
    )
    if written is not None:
        yield from storage.check_volume_path(node, written, at)
        return
    key = node.keys[Companion.TENSORBOARD]
    default = tree.Scalar(TensorBoard().logdir, key.line, key.column)
    for diagnostic in storage.check_volume_path(node, default, at):
        message = f"no logdir, and the default {default.value} is invalid: {diagnostic.message}"
        yield msgspec.structs.replace(diagnostic, message=message)


def _check_folder(node: tree.Mapping, companion: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    written, at = companion.get("folder"), diagnostics.field(path, "folder")
    if written is None or not storage.is_set(written):
        return
    found = list(storage.check_volume_path(node, written, at, is_written=True))
    yield from found
    if not found and (name := _read_only_volume(node, tree.text_of(written) or "")):
        yield diagnostics.error(
            written,
            at,
            f"found {diagnostics.quoted(tree.text_of(written))} in volume {name}, which is readOnly: use a volume "
            "that is writable for notebooks",
        )


def _read_only_volume(node: tree.Mapping, path: str) -> str:
    """Return the read-only volume that contains a path; empty if none does."""
    volumes = storage.volumes_of(node)
    places = {name: at for name, volume in volumes.items() if (at := tree.text_of(volume.get("at")))}
    found = jobfile_volumes.volume_at(places, path)
    if found is None:
        return ""
    flag = volumes[found[0]].get("readOnly")
    return found[0] if isinstance(flag, tree.Scalar) and flag.value is True else ""


# Names


def _check_service(node: tree.Mapping, board: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    written, at = board.get("name"), diagnostics.field(diagnostics.field(path, Companion.TENSORBOARD), "name")
    job = tree.text_of(node.get("name"))
    name = TensorBoard().name if written is None else tree.text_of(written)
    if written is not None and name and name[0].isdecimal():
        expected = "a name that starts with a letter, because a Service has the same name"
        yield from structural_validation.wrong_type(written, expected, at)
    others = {f"{job}-{companion}" for companion in (Companion.JUPYTER, Companion.HUB)}
    if job and name in {job, f"{job}-nfs", *others}:
        message = (
            f"found {diagnostics.quoted(name)}, which is also the name of another Service of the job: choose another "
            f"name, such as {diagnostics.quoted(f'{job}-{Companion.TENSORBOARD}')}"
        )
        yield diagnostics.error(written or node.keys[Companion.TENSORBOARD], at, message, Rule.DUPLICATE_NAME)


def _check_users(hub: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    users = _names(hub, "users")
    for field in ("users", "admins"):
        lines: dict[str, int] = {}
        for item, name, at in _names(hub, field, path):
            is_name = (
                0 < len(name) <= MAX_USER_LENGTH and name.isprintable() and not _NOT_IN_NAMES.search(name)
            )
            if not is_name:
                expected = f'the name of a user: 1 to {MAX_USER_LENGTH} characters, without spaces and "/"'
                yield from structural_validation.wrong_type(item, expected, at)
            elif name.lower() in lines:
                message = (
                    f"found {diagnostics.quoted(name)}, which is already in line {lines[name.lower()]} (user names are "
                    "not case-sensitive): remove one of them"
                )
                yield diagnostics.error(item, at, message, Rule.DUPLICATE_NAME)
            elif field == "admins" and users and name.lower() not in {user.lower() for _, user, _ in users}:
                message = f"found {diagnostics.quoted(name)}, which is not in users and cannot log in: add it to users"
                yield diagnostics.error(item, at, message)
            lines.setdefault(name.lower(), item.line)


def _names(hub: tree.Mapping, field: str, path: str = "") -> list[tuple[tree.Node, str, str]]:
    """Return the names in a list, with their nodes and paths."""
    at = diagnostics.field(path, field)
    return [
        (item, name, diagnostics.item(at, index))
        for index, item in enumerate(tree.items_of(hub.get(field)))
        if (name := tree.text_of(item)) is not None
    ]
