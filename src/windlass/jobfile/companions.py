"""Check the companions of a job file: folders, users, passwords, names and ports."""

import re
import warnings
from collections.abc import Iterator

import msgspec

from windlass.jobfile import rules, storage
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

MAX_USER_NAME_LENGTH = 64

_DEFAULT_PORTS = {
    Companion.TENSORBOARD: TensorBoard().port,
    Companion.JUPYTER: Jupyter().port,
    Companion.HUB: Hub().port,
}
SOURCES = structural_validation.field_names(PasswordFrom)
"""The sources of a password."""
_PASSWORD = "password"  # noqa: S105
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_NAMES = re.compile(r"[\s/]")


def check(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    found: dict[Companion, tree.Mapping] = {}
    for companion in Companion:
        written, at = node.entries.get(companion), diagnostics.field(path, companion)
        if isinstance(written, tree.Scalar) and written.value is None:
            message = f"no value: write {companion}: {{}} for the defaults, or remove the line"
            yield diagnostics.error(node.keys[companion], at, message)
        elif isinstance(written, tree.Mapping):
            found[companion] = written
            yield from _check_name_length(node, companion, path)
            yield from rules.check_fields(written, _RULES, at)
            yield from _check_password(written, at)
            if companion is Companion.TENSORBOARD:
                yield from _check_logdir(node, written, at)
                yield from _check_service(node, written, at)
            else:
                yield from _check_folder(node, written, at)
            if companion is Companion.HUB:
                yield from _check_users(written, at)
    yield from _check_ports(found, path)


def is_password_diagnostic(diagnostic: Diagnostic, path: str) -> bool:
    """Return whether a structural diagnostic is about a password, which `check` reports with more advice."""
    return diagnostic.path in {diagnostics.field(path, companion, _PASSWORD) for companion in Companion}


# Common fields


def _check_password(companion: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    if _PASSWORD in companion.entries:
        message = (
            "do not write a password in a job file, which others can read: write passwordFrom: {env: NAME} or "
            "{file: PATH}, or remove it to generate a password that is shown once"
        )
        yield diagnostics.error(companion.keys[_PASSWORD], diagnostics.field(path, _PASSWORD), message)


def _check_name_length(node: tree.Mapping, companion: Companion, path: str) -> Iterator[Diagnostic]:
    name = node.get("name")
    text = tree.text_of(name)
    suffix = f"-{companion}"
    if name is not None and text and len(text) <= storage.MAX_NAME_LENGTH < len(text + suffix):
        message = storage.name_too_long(text, companion, suffix)
        yield diagnostics.error(name, diagnostics.field(path, "name"), message)


def _check_ports(found: dict[Companion, tree.Mapping], path: str) -> Iterator[Diagnostic]:
    """Require distinct ports, because the pods of a local cluster may share one address."""
    taken = {HUB_INTERNAL_PORT: "the hub's internal API"} if Companion.HUB in found else {}
    for companion, written in found.items():
        node = written.get("port")
        port = (
            node.value
            if isinstance(node, tree.Scalar) and type(node.value) is int
            else _DEFAULT_PORTS[companion]
        )
        if port in taken:
            message = f"found {port}, which is also the port of {taken[port]}: choose another port"
            yield diagnostics.error(node or written, diagnostics.field(path, companion, "port"), message)
        taken.setdefault(port, str(companion))


def _check_password_from(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Mapping):
        return
    sources = [source for source in SOURCES if storage.is_set(node.get(source))]
    yield from rules.check_single_source(node, sources, SOURCES, path, SOURCES)
    yield from rules.check_fields(node, _SOURCE_RULES, path)


def _check_variable(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Check the name of a variable. The message does not quote it, because it may be a password."""
    text = tree.text_of(node)
    if text and not _VARIABLE.fullmatch(text):
        message = "expected the name of a variable, such as JUPYTER_PASSWORD, not the password itself"
        yield diagnostics.error(node, path, message)


def _check_config(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if text is None:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "config", "exec", dont_inherit=True)
    except SyntaxError as error:
        message = f"invalid Python in line {error.lineno or 1} of the config: {error.msg}"
        yield diagnostics.error(node, path, message)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        yield diagnostics.error(node, path, f"invalid Python: {error}")


_SOURCE_RULES: dict[str, rules.Check] = {
    "env": _check_variable,
    "file": rules.text_check(lambda text: "\0" not in text, "the path of a file"),
    "secret": rules.check_object_name,
}
_RULES: dict[str, rules.Check] = {
    "image": rules.check_image,
    "userImage": rules.check_image,
    "resources": rules.check_resources,
    "serviceAccount": rules.check_object_name,
    "passwordFrom": _check_password_from,
    "config": _check_config,
}


# Folders


def _check_logdir(node: tree.Mapping, board: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    written, at = board.get("logdir"), diagnostics.field(path, "logdir")
    if written is not None:
        yield from storage.check_volume_path(node, written, at)
        return
    key = node.keys[Companion.TENSORBOARD]
    default = tree.Scalar(TensorBoard().logdir, key.line, key.column)
    for diagnostic in storage.check_volume_path(node, default, at):
        yield msgspec.structs.replace(diagnostic, message=_missing_logdir(node, diagnostic.message))


def _missing_logdir(node: tree.Mapping, problem: str) -> str:
    """Return what to add for a TensorBoard without logdir if no usable volume is mounted at the default path."""
    default, paths = TensorBoard().logdir, storage.mount_paths_of(node)
    if jobfile_volumes.volume_at(paths, default) is not None:
        return f"no logdir, and the default {default} is invalid: {problem}"
    choices = f" or set logdir to a path in a volume of the job: {', '.join(paths.values())}" if paths else ""
    return (
        f"no volume at {default}, where TensorBoard reads what the tasks write. Add one, e.g. "
        f"`volumes: {{output: {{pvc: results, at: {default}}}}}`, or `hostPath: /home/me/output` in place of `pvc` on "
        f"one machine{',' if choices else '.'}{choices}"
    )


def _check_folder(node: tree.Mapping, companion: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    written, at = companion.get("folder"), diagnostics.field(path, "folder")
    if written is None or not storage.is_set(written):
        return
    found = list(storage.check_volume_path(node, written, at, must_be_writable=True))
    yield from found
    if not found and (name := _read_only_volume(node, tree.text_of(written) or "")):
        message = (
            f"found {diagnostics.quoted(tree.text_of(written))} in volume {name}, which is readOnly: use a volume "
            "that is writable for notebooks"
        )
        yield diagnostics.error(written, at, message)


def _read_only_volume(node: tree.Mapping, path: str) -> str:
    """Return the name of the volume that contains a path if it has `readOnly: true`; otherwise an empty string."""
    volume = jobfile_volumes.volume_at(storage.mount_paths_of(node), path)
    if volume is None:
        return ""
    flag = storage.volumes_of(node)[volume[0]].get("readOnly")
    return volume[0] if isinstance(flag, tree.Scalar) and flag.value is True else ""


# Names


def _check_service(node: tree.Mapping, board: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    written, at = board.get("name"), diagnostics.field(path, "name")
    job = tree.text_of(node.get("name"))
    name = TensorBoard().name if written is None else tree.text_of(written)
    if written is not None and name and not rules.starts_without_digit(name):
        yield from structural_validation.wrong_value(written, rules.EXPECTED_SERVICE_NAME, at)
    if job and name in {job, f"{job}-nfs", f"{job}-{Companion.JUPYTER}", f"{job}-{Companion.HUB}"}:
        message = (
            f"found {diagnostics.quoted(name)}, which is also the name of another Service of the job: choose another "
            f"name, such as {diagnostics.quoted(f'{job}-{Companion.TENSORBOARD}')}"
        )
        yield diagnostics.error(written or node.keys[Companion.TENSORBOARD], at, message, Rule.DUPLICATE_NAME)


def _check_users(hub: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    users = _user_names(hub, "users")
    for field in ("users", "admins"):
        first_lines: dict[str, int] = {}
        for item, name, at in _user_names(hub, field, path):
            is_valid_name = (
                0 < len(name) <= MAX_USER_NAME_LENGTH
                and name.isprintable()
                and not _NOT_IN_NAMES.search(name)
            )
            if not is_valid_name:
                expected = (
                    f'the name of a user: 1 to {MAX_USER_NAME_LENGTH} characters, without spaces and "/"'
                )
                yield from structural_validation.wrong_value(item, expected, at)
            elif name.lower() in first_lines:
                message = (
                    f"found {diagnostics.quoted(name)}, which is already in line {first_lines[name.lower()]} "
                    "(user names are not case-sensitive): remove one of them"
                )
                yield diagnostics.error(item, at, message, Rule.DUPLICATE_NAME)
            elif field == "admins" and users and name.lower() not in {user.lower() for _, user, _ in users}:
                message = f"found {diagnostics.quoted(name)}, which is not in users and cannot log in: add it to users"
                yield diagnostics.error(item, at, message)
            first_lines.setdefault(name.lower(), item.line)


def _user_names(hub: tree.Mapping, field: str, path: str = "") -> list[tuple[tree.Node, str, str]]:
    """Return the user names in a list, with their nodes and paths."""
    at = diagnostics.field(path, field)
    return [
        (item, name, diagnostics.item(at, index))
        for index, item in enumerate(tree.items_of(hub.get(field)))
        if (name := tree.text_of(item)) is not None
    ]
