"""Lint a Framework in a file: structure, names, ports, policies, annotations, and the status."""

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from windlass.k8s.metadata import ObjectMeta
from windlass.model import names
from windlass.model.framework import Framework, FrameworkSpec
from windlass.model.status import FrameworkStatus
from windlass.wire import diagnostics, kubernetes_validation, structural_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.lint import annotations, policies, ports, rules
from windlass.wire.yaml import tree

_MAX_COMPARED = 200
"""The maximum number of volumes to search for a similar name."""
API_VERSIONS = tuple(names.api_version(group) for group in names.GROUPS)


def check(framework: tree.Mapping, path: str = "") -> Iterator[Diagnostic]:
    """Yield the diagnostics of a Framework at `path` of its document, except for its status."""
    are_fields_valid = True
    for diagnostic in _check_fields_and_names(framework, path):
        are_fields_valid = (
            are_fields_valid and not diagnostic.is_error and diagnostic.rule is not Rule.MISSPELT_FIELD
        )
        yield diagnostic
    # Policies can be checked only if all fields are valid.
    if are_fields_valid:
        yield from policies.check(framework, path)
        yield from rules.check(framework, path)


def _check_fields_and_names(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    known = structural_validation.field_names(Framework)
    yield from structural_validation.unknown_fields(framework, known, path)
    yield from _check_api_version_and_kind(framework, path)
    yield from _check_metadata(framework, path)
    yield from _check_spec(framework, path)
    yield from ports.check(framework, path)
    yield from annotations.check(framework, path)


def _check_api_version_and_kind(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    for field, accepted in (("apiVersion", API_VERSIONS), ("kind", (names.KIND,))):
        node = framework.get(field)
        expected = " or ".join(accepted)
        if node is None:
            yield diagnostics.missing_field(framework, path, field, f": expected {expected}")
        elif tree.text_of(node) not in accepted:
            yield from structural_validation.wrong_value(node, expected, diagnostics.field(path, field))


def _check_metadata(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    metadata = framework.get("metadata")
    if metadata is None:
        yield diagnostics.missing_field(framework, path, "metadata", " with the name of the Framework")
        return
    path = diagnostics.field(path, "metadata")
    yield from structural_validation.check(metadata, ObjectMeta, path, is_open=True)
    if not isinstance(metadata, tree.Mapping):
        return
    name = metadata.get("name")
    if name is None:
        yield diagnostics.missing_field(metadata, path, "name")
        return
    text = tree.text_of(name)
    if text is not None and re.fullmatch(names.DNS_LABEL_PATTERN, text) is None:
        yield from structural_validation.wrong_value(name, _expected_name(text, framework), f"{path}.name")


def _expected_name(name: str, framework: tree.Mapping) -> str:
    label = "a DNS label: 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends"
    longest = max((len(pod_name) for pod_name in _pod_names(name, framework)), default=0)
    if longest <= names.POD_NAME_LIMIT:
        return label
    return f"{label}; its pods' names would have {longest} characters, more than the limit of {names.POD_NAME_LIMIT}"


def _check_spec(framework: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    spec = framework.get("spec")
    if spec is None:
        if not _is_misspelt(framework, "spec", structural_validation.field_names(Framework)):
            yield diagnostics.missing_field(framework, path, "spec", " with at least one task role")
        return
    path = diagnostics.field(path, "spec")
    yield from structural_validation.check(spec, FrameworkSpec, path)
    if not isinstance(spec, tree.Mapping):
        return
    roles = spec.get("taskRoles")
    if roles is None:
        if not _is_misspelt(spec, "taskRoles", structural_validation.field_names(FrameworkSpec)):
            yield diagnostics.missing_field(spec, path, "taskRoles", " with at least one role")
        return
    roles_path = f"{path}.taskRoles"
    if isinstance(roles, tree.Sequence) and not roles.items:
        yield diagnostics.error(roles, roles_path, "found an empty list, expected at least one role")
    yield from _check_role_names(framework, tree.items_of(roles), roles_path)
    for index, role in enumerate(tree.items_of(roles)):
        if isinstance(role, tree.Mapping):
            yield from _check_task(role, diagnostics.item(roles_path, index))


def _check_task(role: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    task = role.get("task")
    if task is None:
        yield diagnostics.missing_field(role, path, "task", " with a pod template")
    if not isinstance(task, tree.Mapping):
        return
    pod = task.get("pod")
    pod_path = f"{path}.task.pod"
    if pod is None:
        yield diagnostics.missing_field(task, f"{path}.task", "pod", " with a pod template")
    if isinstance(pod, tree.Mapping):
        yield from _check_pod(pod, pod_path)
        yield from kubernetes_validation.check(pod, kubernetes_validation.POD_TEMPLATE, pod_path)


def _check_pod(pod: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Require what the schema does not: a spec, at least one container, and a volume for each mount."""
    if pod.get("spec") is None:
        yield diagnostics.missing_field(pod, path, "spec", " with containers")
    containers = tree.dig(pod, "spec", "containers")
    if isinstance(containers, tree.Sequence) and not containers.items:
        yield diagnostics.error(
            containers, f"{path}.spec.containers", "found an empty list, expected at least one container"
        )
    yield from _check_mounts(pod.get("spec"), f"{path}.spec")


def _check_mounts(pod_spec: tree.Node | None, path: str) -> Iterator[Diagnostic]:
    volumes = [
        tree.text_of(tree.dig(volume, "name")) for volume in tree.items_of(tree.dig(pod_spec, "volumes"))
    ]
    known = dict.fromkeys(name for name in volumes if name is not None)
    compared = tuple(islice(known, _MAX_COMPARED))
    for container, container_path in ports.containers_of(pod_spec, path):
        for index, mount in enumerate(tree.items_of(container.get("volumeMounts"))):
            name = tree.dig(mount, "name")
            text = tree.text_of(name)
            if name is None or text is None or text in known:
                continue
            yield diagnostics.error(
                name,
                f"{diagnostics.item(f'{container_path}.volumeMounts', index)}.name",
                f"found {diagnostics.quoted(text)}, expected the name of a volume of this pod. "
                f"{_remedy(text, compared)}",
                Rule.UNKNOWN_VOLUME,
            )


def _remedy(name: str, known: tuple[str, ...]) -> str:
    if not known:
        return f"The pod has no volumes: add a volume {diagnostics.quoted(name)}."
    return diagnostics.did_you_mean(name, known)


def _check_role_names(
    framework: tree.Mapping, roles: tuple[tree.Node, ...], path: str
) -> Iterator[Diagnostic]:
    framework_name = tree.text_of(tree.dig(framework, "metadata", "name")) or ""
    first_lines: dict[str, int] = {}
    for index, role in enumerate(roles):
        name = tree.dig(role, "name")
        text = tree.text_of(name)
        if name is None or text is None:
            continue
        name_path = f"{diagnostics.item(path, index)}.name"
        if text in first_lines:
            yield diagnostics.error(
                name,
                name_path,
                f"found {diagnostics.quoted(text)}, which is also the name of the role in line {first_lines[text]}: "
                "expected a unique name",
                Rule.DUPLICATE_NAME,
            )
        first_lines.setdefault(text, name.line)
        yield from _check_pod_name(framework_name, role, text, name_path)


def _check_pod_name(framework_name: str, role: tree.Node, role_name: str, path: str) -> Iterator[Diagnostic]:
    """Warn about a host name that Kubernetes truncates. Invalid names have their own diagnostics."""
    are_valid = re.fullmatch(names.DNS_LABEL_PATTERN, framework_name) and re.search(
        names.ROLE_NAME_PATTERN, role_name
    )
    pod_name = names.pod_name(framework_name, role_name, _highest_index(role))
    if not are_valid or len(pod_name) <= names.HOSTNAME_LIMIT:
        return
    yield diagnostics.warning(
        tree.dig(role, "name") or role,
        path,
        f"the pod name {pod_name} has {len(pod_name)} characters: its host name is truncated to "
        f"{names.HOSTNAME_LIMIT}. Shorten the name of the Framework or of the role.",
        Rule.LONG_POD_NAME,
    )


def _pod_names(framework_name: str, framework: tree.Mapping) -> Iterator[str]:
    for role in tree.items_of(tree.dig(framework, "spec", "taskRoles")):
        yield names.pod_name(framework_name, tree.text_of(tree.dig(role, "name")) or "", _highest_index(role))


def _highest_index(role: tree.Node) -> int:
    return max(0, (tree.integer_of(tree.dig(role, "taskNumber")) or 0) - 1)


def _is_misspelt(node: tree.Mapping, field: str, known: tuple[str, ...]) -> bool:
    """Return whether the field is present under a misspelt name, which has its own diagnostic."""
    return any(diagnostics.nearest(key, known) == field for key in node.entries if key not in known)


# Status


def check_status(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Warn about a status that cannot be decoded. No controller wrote it, and it is ignored."""
    status = node.get("status")
    is_empty = status is None or (isinstance(status, tree.Mapping) and not status.entries)
    if status is not None and not is_empty and not _has_invalid_values(status) and not _is_status(status):
        yield diagnostics.warning(
            status,
            diagnostics.field(path, "status"),
            "this status was not written by a controller, and is ignored: remove it",
        )


def _has_invalid_values(node: tree.Node) -> bool:
    match node:
        case tree.Mapping():
            return any(_has_invalid_values(value) for value in node.entries.values())
        case tree.Sequence():
            return any(_has_invalid_values(item) for item in node.items)
    return isinstance(node, tree.Invalid)


def _is_status(status: tree.Node) -> bool:
    try:
        msgspec.convert(tree.plain(status), FrameworkStatus)
    except msgspec.ValidationError:
        return False
    return True
