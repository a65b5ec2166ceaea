"""Do commands, arguments and variables agree with the Framework that they stand in: ports, and its name.

These are guesses about text, so they are warnings, and they look only where a number can be nothing but a port: after
a word that ends in "port", or after a host and a colon. A number elsewhere is left alone, and so is the port of a host
that is plainly not one of the Framework's own.
"""

import re
from collections.abc import Iterator

import msgspec

from windlass.wire import faults, pod_checks, tree
from windlass.wire.faults import Fault

_PORTS = range(1, 65536)
_AFTER_PORT = re.compile(
    r"(?<![A-Za-z0-9])(?:\w{0,60}[_-])?(?:port|PORT|\w{0,60}[a-z0-9]Port)(?:=|:\s?|\s{1,4})[\"']?(\d{2,5})(?![\w.:-])"
)
_AFTER_COLON = re.compile(r":(\d{2,5})(?![\w.:-])")
_FRAMEWORK_NAME = re.compile(r"(?<!\w)framework_name=[\"']?([A-Za-z0-9][A-Za-z0-9.-]*)")

_LONGEST_HOST = 253
_VARIABLE = re.compile(r"\$(?:\w+|\{[^{}]+\}|\([^()]+\))$")
_NAME = re.compile(r"(?<![\w.$-])[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*$")
_OWN_ADDRESS = re.compile(r"(?<![\w.])(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\])$")
_SPEAKS_OF_A_HOST = re.compile(
    r"(?:hosts?|addr|address|addresses|server|servers|master|coordinator|endpoint|peers?|bind|listen)$",
    re.IGNORECASE,
)
_OPTION = re.compile(r"([\w-]+)[= ]\S*$")


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
        return next((declared for declared in self.owners if _is_slip(str(port), str(declared))), None)


def check(framework: tree.Mapping, path: str) -> Iterator[Fault]:
    """`path` is where the Framework stands in its document."""
    name = tree.text_of(tree.dig(framework, "metadata", "name")) or ""
    roles = tuple(_roles(framework, path))
    role_names = tuple(tree.text_of(tree.dig(role, "name")) or "" for role, _ in roles)
    ports = _declared(roles)
    for role, role_path in roles:
        for container, container_path in _containers(role, role_path):
            for phrase in _phrases(container, container_path):
                yield from _check_ports(phrase, ports, (name, *role_names))
                yield from _check_name(phrase, name)


def used_ports(text: str, own_names: tuple[str, ...]) -> tuple[int, ...]:
    """The ports that a text speaks of, each once. `own_names` begin the names of the Framework's own hosts."""
    after_port = [int(match[1]) for match in _AFTER_PORT.finditer(text)]
    after_host = [
        int(match[1])
        for match in _AFTER_COLON.finditer(text)
        if _ends_in_own_host(text, match.start(), own_names)
    ]
    return tuple(port for port in dict.fromkeys(after_port + after_host) if port in _PORTS)


def _check_ports(phrase: Phrase, ports: Ports, own_names: tuple[str, ...]) -> Iterator[Fault]:
    for port in used_ports(phrase.text, own_names):
        if port in ports.owners:
            continue
        near = ports.near(port)
        if near is not None:
            remedy = f"Did you mean {near}, which {ports.owners[near]} declares?"
        else:
            remedy = f"Add containerPort: {port} to the container that listens there, or correct the number."
        yield faults.warning(
            phrase.node,
            phrase.path,
            f"the port {port} is used here, but no container of the Framework declares it. {remedy}",
        )


def _check_name(phrase: Phrase, framework: str) -> Iterator[Fault]:
    others = dict.fromkeys(match[1] for match in _FRAMEWORK_NAME.finditer(phrase.text))
    for other in others:
        if framework and other != framework:
            yield faults.warning(
                phrase.node,
                phrase.path,
                f"framework_name={faults.cut(other)} is set here, but this Framework is called "
                f"{faults.quoted(framework)}: the tasks would look for the addresses of another one. Write framework_name={faults.cut(framework)}.",
            )


def _roles(framework: tree.Mapping, path: str) -> Iterator[tuple[tree.Node, str]]:
    roles_path = faults.field(faults.field(path, "spec"), "taskRoles")
    for index, role in enumerate(tree.items_of(tree.dig(framework, "spec", "taskRoles"))):
        yield role, faults.item(roles_path, index)


def _containers(role: tree.Node, path: str) -> Iterator[tuple[tree.Mapping, str]]:
    return pod_checks.containers_of(tree.dig(role, "task", "pod", "spec"), f"{path}.task.pod.spec")


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
    container_name = faults.quoted(tree.text_of(container.get("name")) or "")
    return f"container {container_name} of role {faults.quoted(tree.text_of(tree.dig(role, 'name')) or '')}"


def _phrases(container: tree.Mapping, path: str) -> Iterator[Phrase]:
    """An item that is just an option, such as `--port`, is read together with the one that follows."""
    for field in ("command", "args"):
        option = ""
        for index, item in enumerate(tree.items_of(container.get(field))):
            text = tree.text_of(item)
            if text is None:
                continue
            yield Phrase(f"{option}{text}", item, faults.item(f"{path}.{field}", index))
            is_an_option = text.startswith("-") and not any(character in text for character in "= ")
            option = f"{text} " if is_an_option else ""
    for index, variable in enumerate(tree.items_of(container.get("env"))):
        name, value = tree.dig(variable, "name"), tree.dig(variable, "value")
        text = tree.text_of(value)
        if value is not None and text is not None:
            env_path = f"{faults.item(f'{path}.env', index)}.value"
            yield Phrase(f"{tree.text_of(name) or ''}={text}", value, env_path)


def _ends_in_own_host(text: str, end: int, own_names: tuple[str, ...]) -> bool:
    """Whether what stands before the colon at `end` names a host that could be one of this Framework's."""
    before = text[max(0, end - _LONGEST_HOST) : end]
    if _VARIABLE.search(before) or _OWN_ADDRESS.search(before):
        return True
    name = _NAME.search(before)
    if name is None:
        return False
    first_label, _, domain = name[0].partition(".")
    is_named_after_us = any(
        own and (first_label == own or first_label.startswith(f"{own}-")) for own in own_names
    )
    option = _OPTION.search(before[: name.start()])
    is_in_a_host_list = option is not None and _SPEAKS_OF_A_HOST.search(option[1]) is not None
    is_a_bare_host = not domain and (_SPEAKS_OF_A_HOST.search(first_label) is not None or is_in_a_host_list)
    return is_named_after_us or is_a_bare_host


def _is_slip(written: str, meant: str) -> bool:
    if len(written) != len(meant):
        return False
    differing = [index for index, (one, other) in enumerate(zip(written, meant, strict=True)) if one != other]
    if len(differing) == 1:
        return True
    return (
        len(differing) == 2
        and written[differing[0]] + written[differing[1]] == meant[differing[1]] + meant[differing[0]]
    )
