"""Lint the features that annotations request: unknown values, invalid names, missing ports. Also lint duplicate
ports of pods with hostNetwork.

`semantic_validation` checks values and names for a Framework that is already in a cluster.
"""

from collections.abc import Iterator, Mapping

from windlass.model import names, role_names
from windlass.model.feature_annotations import ALL, Features, Runtime, requested_features, unknown_values
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.lint import ports
from windlass.wire.semantic_validation import ADDRESS_LIST_RUNTIMES, elastic_problem
from windlass.wire.yaml import tree

_PORTLESS_RUNTIMES = frozenset({Runtime.MPI, Runtime.PLAIN})
"""Runtimes whose tasks do not always need a port."""


def requested_features_of(framework: tree.Mapping) -> Features:
    return requested_features(
        {name: tree.text_of(node) or "" for name, node in _annotations(framework).items()}
    )


def check(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    annotations = _annotations(framework)
    where = diagnostics.field(path, "metadata", "annotations")
    written = {name: tree.text_of(node) or "" for name, node in annotations.items()}
    role_nodes = tuple(ports.roles_of(framework, path))
    role_names_written = [tree.text_of(tree.dig(role, "name")) or "" for role, _ in role_nodes]
    for name, value, known in unknown_values(written, role_names_written):
        message = f"found {diagnostics.quoted(value)}. {diagnostics.did_you_mean(value, known)}"
        yield diagnostics.error(annotations[name], diagnostics.field(where, name), message)
    problem = elastic_problem(written, role_names_written)
    if problem:
        at = diagnostics.field(where, names.ELASTIC_ANNOTATION)
        yield diagnostics.error(annotations[names.ELASTIC_ANNOTATION], at, problem)
    features = requested_features(written)
    if names.IDLE_ANNOTATION in written and features.runtime is not Runtime.TENSORFLOW:
        message = (
            f"idle servers need {names.RUNTIME_ANNOTATION}: tensorflow. Add it, or remove this annotation"
        )
        where = diagnostics.field(where, names.IDLE_ANNOTATION)
        yield diagnostics.warning(annotations[names.IDLE_ANNOTATION], where, message, Rule.NO_COMMAND)
    if features.uses_dns_names:
        yield from _check_name(framework, path)
    for role, role_path in role_nodes:
        yield from _check_role_name(role, role_path, features)
        yield from _check_command(role, role_path, features)
        yield from _check_ports(role, role_path, features)


def _annotations(framework: tree.Mapping) -> Mapping[str, tree.Node]:
    found = tree.dig(framework, "metadata", "annotations")
    return found.entries if isinstance(found, tree.Mapping) else {}


def _check_name(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    node = tree.dig(framework, "metadata", "name")
    name = tree.text_of(node) or ""
    if node is not None and name[:1].isdecimal():
        message = (
            f"found {diagnostics.quoted(name)}, expected a letter at the beginning: with {names.RUNTIME_ANNOTATION} a "
            "Service has the same name, which may not start with a digit"
        )
        yield diagnostics.error(node, diagnostics.field(path, "metadata", "name"), message)


def _check_role_name(role: tree.Node, path: str, features: Features) -> Iterator[Diagnostic]:
    node = tree.dig(role, "name")
    name = tree.text_of(node) or ""
    if node is not None and features.runtime in ADDRESS_LIST_RUNTIMES and name[:1].isdecimal():
        message = (
            f"found {diagnostics.quoted(name)}, expected a letter at the beginning: with this "
            f"{names.RUNTIME_ANNOTATION} "
            f"the variable {diagnostics.truncate(name.upper())}_HOSTS is set, whose name may not start with a digit"
        )
        yield diagnostics.error(node, diagnostics.field(path, "name"), message)


def _check_command(role: tree.Node, path: str, features: Features) -> Iterator[Diagnostic]:
    """Warn about a container without a command if no annotation selects the entrypoint or an idle TensorFlow server."""
    name = tree.text_of(tree.dig(role, "name")) or ""
    containers = tree.items_of(tree.dig(role, "task", "pod", "spec", "containers"))
    if not containers or not features.is_idle_server(name, default=ALL):
        return
    has_command = any(tree.items_of(tree.dig(containers[0], field)) for field in ("command", "args"))
    if has_command and name in (features.idle_roles or ()):
        message = (
            f"the container has a command, so it runs no idle TensorFlow server, although {names.IDLE_ANNOTATION} "
            "names the role. Remove one of them"
        )
        yield diagnostics.warning(role, path, message, Rule.NO_COMMAND)
    if not has_command and features.idle_roles is None:
        message = (
            "the container has no command, so it runs the entrypoint of its image. On an embedded cluster, this "
            "release still runs an idle TensorFlow server instead. Add a command, or the annotation "
            f'{names.IDLE_ANNOTATION}: "true" for idle servers, "false" for the entrypoint'
        )
        yield diagnostics.warning(role, path, message, Rule.NO_COMMAND)


def _check_ports(role: tree.Node, path: str, features: Features) -> Iterator[Diagnostic]:
    pod = tree.dig(role, "task", "pod", "spec")
    declared = list(_declared_ports(pod))
    is_member = tree.text_of(tree.dig(role, "name")) not in role_names.NON_MEMBERS
    needs_port = (
        is_member
        and features.runtime not in _PORTLESS_RUNTIMES
        and (features.uses_dns_names or features.uses_gang)
    )
    if needs_port and pod is not None and not declared:
        message = (
            f"no container declares a port: other tasks connect to {names.DEFAULT_PORT}. Declare the containerPort "
            "that the tasks listen on"
        )
        yield diagnostics.warning(role, path, message, Rule.NO_PORT)
    host_network = tree.dig(pod, "hostNetwork")
    if not isinstance(host_network, tree.Scalar) or host_network.value is not True:
        return
    seen: set[tuple[str, str]] = set()
    for port, node in declared:
        if port in seen:
            message = (
                f"port {port[0]} is declared twice in a pod with hostNetwork, so the pod cannot be created. Give one "
                "of the containers another port"
            )
            where = diagnostics.field(path, "task", "pod", "spec", "containers")
            yield diagnostics.error(node, where, message, Rule.DUPLICATE_PORT)
        seen.add(port)


def _declared_ports(pod: tree.Node | None) -> Iterator[tuple[tuple[str, str], tree.Node]]:
    for container in tree.items_of(tree.dig(pod, "containers")):
        for port in tree.items_of(tree.dig(container, "ports")):
            number = tree.dig(port, "containerPort")
            if isinstance(number, tree.Scalar):
                protocol = tree.text_of(tree.dig(port, "protocol")) or "TCP"
                yield (str(number.value), protocol), number
