"""Lint ports and Framework names in commands, arguments and variables.

The diagnostics are guesses about text, so they are warnings. A number counts as a port only after the word
"port", which may be part of a name such as `ps_port`, or after a host that may belong to the Framework and a colon.
"""

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree

CONTAINER_FIELDS = ("containers", "initContainers", "ephemeralContainers")
_PORTS = range(1, 65536)
_AFTER_PORT = re.compile(r"(port|Port|PORT)(?:=|:\s?|\s{1,4})[\"']?(\d{2,5})(?![\w.:-])")
_AFTER_COLON = re.compile(r":(\d{2,5})(?![\w.:-])")
_FRAMEWORK_NAME = re.compile(r"(?<!\w)framework_name=[\"']?([A-Za-z0-9][A-Za-z0-9.-]*)")
_MAX_PORTS = 1000
"""The limit for one text. A longer list is data rather than a command."""

_MAX_HOST_LENGTH = 253
_HOST_SEPARATOR = re.compile(r".*[\s,;=/@\"'`|&<>]", re.DOTALL)
_VARIABLE = re.compile(r".*\$(?:\w+|\{.+\})|.*\)", re.DOTALL)
_OWN_ADDRESS = re.compile(r"localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\]")
_HYPHEN_OR_END = re.compile(r"-|$")
_NAME = re.compile(r"([A-Za-z][A-Za-z0-9-]*)((?:\.[A-Za-z0-9-]+)*)")
_HOST_WORD = re.compile(
    r".*(?:host|addr|address|server|master|coordinator|endpoint|peer|bind|listen)(?:e?s)?",
    re.IGNORECASE | re.DOTALL,
)


class Phrase(msgspec.Struct, frozen=True):
    """A text of a container and its position."""

    text: str
    node: tree.Node
    path: str


class Ports(msgspec.Struct, frozen=True):
    """The declared ports of a Framework, each with a description of the container."""

    owners: dict[int, str]

    def near(self, port: int) -> int | None:
        """Return a declared port that differs by one digit or by two transposed digits."""
        return next((similar for similar in _similar_numbers(str(port)) if similar in self.owners), None)


def check(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Check a Framework at `path` of its document."""
    name = tree.text_of(tree.dig(framework, "metadata", "name")) or ""
    roles = tuple(roles_of(framework, path))
    own_names = frozenset({name, *(tree.text_of(tree.dig(role, "name")) or "" for role, _ in roles)} - {""})
    ports = _declared_ports(roles)
    for role, role_path in roles:
        for container, container_path in _containers_of_role(role, role_path):
            for phrase in _phrases(container, container_path):
                yield from _check_ports(phrase, ports, own_names)
                yield from _check_name(phrase, name)


def used_ports(text: str, own_names: frozenset[str]) -> tuple[int, ...]:
    """Return the distinct ports in a text. `own_names` are prefixes of the names of the Framework's hosts."""
    after_port = [
        int(match[2])
        for match in islice(_AFTER_PORT.finditer(text), _MAX_PORTS)
        if _is_word_start(text, match.start())
    ]
    after_host = [
        int(match[1])
        for match in islice(_AFTER_COLON.finditer(text), _MAX_PORTS)
        if _ends_in_own_host(text[max(0, match.start() - _MAX_HOST_LENGTH) : match.start()], own_names)
    ]
    return tuple(port for port in dict.fromkeys(after_port + after_host) if port in _PORTS)


def _check_ports(phrase: Phrase, ports: Ports, own_names: frozenset[str]) -> Iterator[Diagnostic]:
    for port in used_ports(phrase.text, own_names):
        if port in ports.owners:
            continue
        near = ports.near(port)
        if near is not None:
            remedy = f"Did you mean {near}, which {ports.owners[near]} declares?"
        else:
            remedy = f"Add containerPort: {port} to the container that listens on it, or correct the number."
        yield diagnostics.warning(
            phrase.node,
            phrase.path,
            f"port {port} is not declared by any container of the Framework. {remedy}",
            Rule.UNDECLARED_PORT,
        )


def _check_name(phrase: Phrase, framework_name: str) -> Iterator[Diagnostic]:
    names = dict.fromkeys(match[1] for match in _FRAMEWORK_NAME.finditer(phrase.text))
    for other in names:
        if framework_name and other != framework_name:
            yield diagnostics.warning(
                phrase.node,
                phrase.path,
                f"framework_name={diagnostics.truncate(other)} does not match the name of this Framework, "
                f"{diagnostics.quoted(framework_name)}: tasks would look for the addresses of another Framework. "
                f"Set framework_name={diagnostics.truncate(framework_name)}.",
                Rule.OTHER_FRAMEWORK,
            )


def roles_of(framework: tree.Mapping, path: str) -> Iterator[tuple[tree.Node, str]]:
    """Yield the task roles of a Framework at `path`, with their paths."""
    roles_path = diagnostics.field(path, "spec", "taskRoles")
    for index, role in enumerate(tree.items_of(tree.dig(framework, "spec", "taskRoles"))):
        yield role, diagnostics.item(roles_path, index)


def containers_of(pod_spec: tree.Node | None, path: str) -> Iterator[tuple[tree.Mapping, str]]:
    """Yield all containers with their paths, including init and ephemeral containers."""
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(tree.items_of(tree.dig(pod_spec, field))):
            if isinstance(container, tree.Mapping):
                yield container, diagnostics.item(f"{path}.{field}", index)


def _containers_of_role(role: tree.Node, path: str) -> Iterator[tuple[tree.Mapping, str]]:
    return containers_of(tree.dig(role, "task", "pod", "spec"), f"{path}.task.pod.spec")


def _declared_ports(roles: tuple[tuple[tree.Node, str], ...]) -> Ports:
    owners: dict[int, str] = {}
    for role, path in roles:
        for container, _ in _containers_of_role(role, path):
            for port in tree.items_of(container.get("ports")):
                for field in ("containerPort", "hostPort"):
                    number = tree.dig(port, field)
                    if isinstance(number, tree.Scalar) and isinstance(number.value, int):
                        owners.setdefault(number.value, _owner(container, role))
    return Ports(owners)


def _owner(container: tree.Mapping, role: tree.Node) -> str:
    container_name = diagnostics.quoted(tree.text_of(container.get("name")) or "")
    return (
        f"container {container_name} of role {diagnostics.quoted(tree.text_of(tree.dig(role, 'name')) or '')}"
    )


def _phrases(container: tree.Mapping, path: str) -> Iterator[Phrase]:
    """Yield commands, arguments and variables. An option such as `--port` is joined with the next item."""
    for field in ("command", "args"):
        option = ""
        for index, item in enumerate(tree.items_of(container.get(field))):
            text = tree.text_of(item)
            if text is None:
                continue
            yield Phrase(f"{option}{text}", item, diagnostics.item(f"{path}.{field}", index))
            is_an_option = text.startswith("-") and not any(character in text for character in "= ")
            option = f"{text} " if is_an_option else ""
    for index, variable in enumerate(tree.items_of(container.get("env"))):
        name, value = tree.dig(variable, "name"), tree.dig(variable, "value")
        text = tree.text_of(value)
        if value is not None and text is not None:
            env_path = f"{diagnostics.item(f'{path}.env', index)}.value"
            yield Phrase(f"{tree.text_of(name) or ''}={text}", value, env_path)


def _is_word_start(text: str, start: int) -> bool:
    """Return whether "port" starts a word, as in `ps_port` and `psPort` but not in `report`."""
    before = text[start - 1] if start > 0 else ""
    return not before.isalpha() or (text[start] == "P" and before.islower())


def _ends_in_own_host(text: str, own_names: frozenset[str]) -> bool:
    """Return whether the text before a colon and a port ends in a host that may belong to the Framework."""
    begin = _HOST_SEPARATOR.match(text)
    host = text[begin.end() :] if begin is not None else text
    if _VARIABLE.fullmatch(host) or _OWN_ADDRESS.fullmatch(host):
        return True
    name = _NAME.fullmatch(host)
    if name is None:
        return False
    first_label, domain = name[1], name[2]
    beginnings = (first_label[: hyphen.start()] for hyphen in _HYPHEN_OR_END.finditer(first_label))
    has_own_name = any(beginning in own_names for beginning in beginnings)
    has_host_word = bool(_HOST_WORD.fullmatch(first_label) or _HOST_WORD.fullmatch(_option(text)))
    return has_own_name or (not domain and has_host_word)


def _option(text: str) -> str:
    """Return the option of the last value: `--ps_hosts` in `--ps_hosts=a:1,b` and in `--ps_hosts a:1,b`."""
    words = text.split()
    before, is_assigned, _ = words[-1].partition("=")
    if is_assigned:
        return before
    return words[-2] if len(words) > 1 and words[-2].startswith("-") else ""


def _similar_numbers(digits: str) -> Iterator[int]:
    """Yield the numbers that differ by at most one digit or by two transposed digits."""
    for index, digit in enumerate(digits):
        for other in "0123456789":
            yield int(f"{digits[:index]}{other}{digits[index + 1 :]}")
        if index + 1 < len(digits):
            yield int(f"{digits[:index]}{digits[index + 1]}{digit}{digits[index + 2 :]}")
