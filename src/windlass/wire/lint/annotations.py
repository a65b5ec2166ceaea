"""Lint the features that annotations request: unknown values, invalid names, missing ports. Also lint duplicate
ports of pods with hostNetwork.

`semantic_validation` checks values and names for a Framework that is already in a cluster.
"""

from collections.abc import Iterator

from windlass.model import names, role_names
from windlass.model.feature_annotations import Features, Runtime, requested_features, unknown_values
from windlass.wire import diagnostics
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.lint import ports
from windlass.wire.semantic_validation import ADDRESS_LIST_RUNTIMES
from windlass.wire.yaml import tree

_PORTLESS_RUNTIMES = frozenset({Runtime.MPI, Runtime.PLAIN})
"""Runtimes whose tasks do not always need a port."""


def check(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    found = tree.dig(framework, "metadata", "annotations")
    annotations = found.entries if isinstance(found, tree.Mapping) else {}
    where = diagnostics.field(path, "metadata", "annotations")
    written = {name: tree.text_of(node) or "" for name, node in annotations.items()}
    for name, value, known in unknown_values(written):
        message = f"found {diagnostics.quoted(value)}. {diagnostics.did_you_mean(value, known)}"
        yield diagnostics.error(annotations[name], diagnostics.field(where, name), message)
    features = requested_features(written)
    if features.uses_dns_names:
        yield from _check_name(framework, path)
    for role, role_path in ports.roles_of(framework, path):
        yield from _check_role_name(role, role_path, features)
        yield from _check_ports(role, role_path, features)


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
