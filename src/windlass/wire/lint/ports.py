"""Do commands, arguments and variables agree with the Framework that they stand in: ports, and its name.

These are guesses about text, so they are warnings, and they look only where a number can be nothing but a port: after
a word that ends in "port", or after a host and a colon. A number elsewhere is left alone, and so is the port of a host
that is plainly not one of the Framework's own.
"""

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.lint import pods
from windlass.wire.yaml import tree

_PORTS = range(1, 65536)
_AFTER_PORT = re.compile(r"(port|Port|PORT)(?:=|:\s?|\s{1,4})[\"']?(\d{2,5})(?![\w.:-])")
_AFTER_COLON = re.compile(r":(\d{2,5})(?![\w.:-])")
_FRAMEWORK_NAME = re.compile(r"(?<!\w)framework_name=[\"']?([A-Za-z0-9][A-Za-z0-9.-]*)")
_MOST_PORTS = 1000
"""Of one text; a longer list is data and not a command."""

_LONGEST_HOST = 253
_HOST_BEGINS_AFTER = re.compile(r".*[\s,;=/@\"'`|&<>]", re.DOTALL)
_VARIABLE = re.compile(r".*\$(?:\w+|\{.+\})|.*\)", re.DOTALL)
_OWN_ADDRESS = re.compile(r"localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\]")
_HYPHEN_OR_END = re.compile(r"-|$")
_NAME = re.compile(r"([A-Za-z][A-Za-z0-9-]*)((?:\.[A-Za-z0-9-]+)*)")
_SPEAKS_OF_A_HOST = re.compile(
    r".*(?:host|addr|address|server|master|coordinator|endpoint|peer|bind|listen)(?:e?s)?",
    re.IGNORECASE | re.DOTALL,
)


class Phrase(msgspec.Struct, frozen=True):
    """A text of a container, and where it stands."""

    text: str
    node: tree.Node
    path: str


class Ports(msgspec.Struct, frozen=True):
    """The declared ports of a Framework, each with the containers that declare it, in words."""

    owners: dict[int, str]

    def near(self, port: int) -> int | None:
        """The declared port that differs by one digit or by two that changed places."""
        return next((meant for meant in _slips(str(port)) if meant in self.owners), None)


def check(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """`path` is where the Framework stands in its document."""
    name = tree.text_of(tree.dig(framework, "metadata", "name")) or ""
    roles = tuple(_roles(framework, path))
    own_names = frozenset({name, *(tree.text_of(tree.dig(role, "name")) or "" for role, _ in roles)} - {""})
    ports = _declared(roles)
    for role, role_path in roles:
        for container, container_path in _containers(role, role_path):
            for phrase in _phrases(container, container_path):
                yield from _check_ports(phrase, ports, own_names)
                yield from _check_name(phrase, name)


def used_ports(text: str, own_names: frozenset[str]) -> tuple[int, ...]:
    """The ports that a text speaks of, each once. `own_names` begin the names of the Framework's own hosts."""
    after_port = [
        int(match[2])
        for match in islice(_AFTER_PORT.finditer(text), _MOST_PORTS)
        if _is_a_word(text, match.start())
    ]
    after_host = [
        int(match[1])
        for match in islice(_AFTER_COLON.finditer(text), _MOST_PORTS)
        if _ends_in_own_host(text[max(0, match.start() - _LONGEST_HOST) : match.start()], own_names)
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
            remedy = f"Add containerPort: {port} to the container that listens there, or correct the number."
        yield diagnostics.warning(
            phrase.node,
            phrase.path,
            f"the port {port} is used here, but no container of the Framework declares it. {remedy}",
            Rule.UNDECLARED_PORT,
        )


def _check_name(phrase: Phrase, framework: str) -> Iterator[Diagnostic]:
    others = dict.fromkeys(match[1] for match in _FRAMEWORK_NAME.finditer(phrase.text))
    for other in others:
        if framework and other != framework:
            yield diagnostics.warning(
                phrase.node,
                phrase.path,
                f"framework_name={diagnostics.truncate(other)} is set here, but this Framework is called "
                f"{diagnostics.quoted(framework)}: the tasks would look for the addresses of another one. "
                f"Write framework_name={diagnostics.truncate(framework)}.",
                Rule.OTHER_FRAMEWORK,
            )


def _roles(framework: tree.Mapping, path: str) -> Iterator[tuple[tree.Node, str]]:
    roles_path = diagnostics.field(diagnostics.field(path, "spec"), "taskRoles")
    for index, role in enumerate(tree.items_of(tree.dig(framework, "spec", "taskRoles"))):
        yield role, diagnostics.item(roles_path, index)


def _containers(role: tree.Node, path: str) -> Iterator[tuple[tree.Mapping, str]]:
    return pods.containers_of(tree.dig(role, "task", "pod", "spec"), f"{path}.task.pod.spec")


def _declared(roles: tuple[tuple[tree.Node, str], ...]) -> Ports:
    owners: dict[int, str] = {}
    for role, path in roles:
        for container, _ in _containers(role, path):
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
    """An item that is just an option, such as `--port`, is read together with the one that follows."""
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


def _is_a_word(text: str, start: int) -> bool:
    """Whether "port" begins a word here, as in `ps_port` and `psPort` but not in `report`."""
    before = text[start - 1] if start > 0 else ""
    return not before.isalpha() or (text[start] == "P" and before.islower())


def _ends_in_own_host(text: str, own_names: frozenset[str]) -> bool:
    """Whether a text, which a colon and a port follow, ends in a host that could be one of this Framework's."""
    begin = _HOST_BEGINS_AFTER.match(text)
    host = text[begin.end() :] if begin is not None else text
    if _VARIABLE.fullmatch(host) or _OWN_ADDRESS.fullmatch(host):
        return True
    name = _NAME.fullmatch(host)
    if name is None:
        return False
    first_label, domain = name[1], name[2]
    beginnings = (first_label[: hyphen.start()] for hyphen in _HYPHEN_OR_END.finditer(first_label))
    is_named_after_us = any(beginning in own_names for beginning in beginnings)
    is_called_a_host = bool(
        _SPEAKS_OF_A_HOST.fullmatch(first_label) or _SPEAKS_OF_A_HOST.fullmatch(_option(text))
    )
    return is_named_after_us or (not domain and is_called_a_host)


def _option(text: str) -> str:
    """What the last word is the value of: `--ps_hosts` in `--ps_hosts=a:1,b` and in `--ps_hosts a:1,b`."""
    words = text.split()
    before, is_assigned, _ = words[-1].partition("=")
    if is_assigned:
        return before
    return words[-2] if len(words) > 1 and words[-2].startswith("-") else ""


def _slips(digits: str) -> Iterator[int]:
    """The numbers that somebody who wrote these digits may have meant."""
    for index, digit in enumerate(digits):
        for other in "0123456789":
            yield int(f"{digits[:index]}{other}{digits[index + 1 :]}")
        if index + 1 < len(digits):
            yield int(f"{digits[:index]}{digits[index + 1]}{digit}{digits[index + 2 :]}")
