"""Checks a config with imports and resources, and converts it to a ClusterConfig.

`render.cluster_config` checks the output of templates.
"""

import re
from collections.abc import Collection, Iterator

import msgspec

from windlass.jobfile import rules
from windlass.model import names, role_names
from windlass.model.cluster_config import (
    ClusterConfig,
    Import,
    JupyterService,
    ResourceType,
    TensorFlowCluster,
)
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.yaml import tree

PROPERTIES: dict[str, type[msgspec.Struct]] = {
    ResourceType.TENSORFLOW_CLUSTER: TensorFlowCluster,
    ResourceType.JUPYTER_SERVICE: JupyterService,
}
"""The properties of built-in resource types."""

_OBJECT_FIELDS = frozenset({"apiVersion", "kind"})


def is_config(node: tree.Node) -> bool:
    """Return whether a document has imports or a list of resources, but neither apiVersion nor kind. In a job file,
    resources are a mapping."""
    if not isinstance(node, tree.Mapping) or _OBJECT_FIELDS & node.entries.keys():
        return False
    return "imports" in node.entries or isinstance(node.entries.get("resources"), tree.Sequence)


def import_paths(node: tree.Node) -> tuple[str, ...]:
    """Return the valid paths of imports, which are inside the folder of the config."""
    written = (tree.text_of(tree.dig(item, "path")) for item in tree.items_of(tree.dig(node, "imports")))
    return tuple(path for path in written if path and not _path_problem(path))


def check(node: tree.Node, path: str, templates: Collection[str] = ()) -> Iterator[Diagnostic]:
    """Yield all diagnostics of a config. `templates` are the paths of the available template files."""
    yield from structural_validation.check(node, ClusterConfig, path)
    yield from _check_imports(node, path, templates)
    known = _known_types(node, templates)
    missing = {name for each in _imports(node) for name in each.names} - known.keys()
    resources, at = tree.dig(node, "resources"), diagnostics.field(path, "resources")
    if resources is None or (isinstance(resources, tree.Sequence) and not resources.items):
        message = "no resources: add at least one, such as {type: tensorflow-cluster, properties: …}"
        yield diagnostics.error(resources or node, at, message, Rule.MISSING_FIELD)
    for index, resource in enumerate(tree.items_of(resources)):
        # A missing template has its own diagnostic.
        if tree.text_of(tree.dig(resource, "type")) not in missing:
            yield from _check_resource(resource, diagnostics.item(at, index), known)
    yield from _check_names(node, at, known)
    yield from _check_jobs(node, at, known)


def config_of(node: tree.Node) -> ClusterConfig:
    """Return the config of a node without errors. Properties keep nulls, because templates may distinguish null
    from a missing property."""
    written = tree.plain(node)
    config: ClusterConfig = msgspec.convert(tree.without_nulls(written), ClusterConfig)
    properties = [each.get("properties") or {} for each in written["resources"]]
    resources = zip(config.resources, properties, strict=True)
    return msgspec.structs.replace(
        config,
        resources=tuple(
            msgspec.structs.replace(each, properties=properties_of_resource)
            for each, properties_of_resource in resources
        ),
    )


def template_of(config: ClusterConfig, resource_type: str, templates: Collection[str]) -> str | None:
    """Return the path of the template of a resource type; None if it is built in."""
    paths = (each.path for each in config.imports if resource_type in each.names)
    return next((path for path in paths if path in templates), None)


def built_in(config: ClusterConfig, resource_type: str) -> ResourceType:
    """Return the built-in type of a resource. `resource_type` may also be the path of its import."""
    imported = (each.names[0] for each in config.imports if resource_type in each.names)
    return ResourceType(next(imported, resource_type))


# Imports


def _check_imports(node: tree.Node, path: str, templates: Collection[str]) -> Iterator[Diagnostic]:
    at = diagnostics.field(path, "imports")
    first_lines: dict[str, int] = {}
    for index, item in enumerate(tree.items_of(tree.dig(node, "imports"))):
        node_of_path = tree.dig(item, "path")
        text = tree.text_of(node_of_path)
        if node_of_path is None or text is None:
            continue
        item_path = diagnostics.field(diagnostics.item(at, index), "path")
        problem = _path_problem(text)
        if problem:
            yield diagnostics.error(node_of_path, item_path, f"found {diagnostics.quoted(text)}, {problem}")
            continue
        name = _import(item, text).names[0]
        if text not in templates and name not in PROPERTIES:
            message = (
                f"found no file {diagnostics.quoted(text)} in the folder of the config, and no built-in type "
                f"{diagnostics.quoted(name)}. {_did_you_mean(name, tuple(PROPERTIES))}"
            )
            yield diagnostics.error(node_of_path, item_path, message)
        elif name in first_lines:
            message = f"{diagnostics.quoted(name)} is already imported in line {first_lines[name]}: remove one of them"
            yield diagnostics.error(node_of_path, item_path, message, Rule.DUPLICATE_NAME)
        first_lines.setdefault(name, node_of_path.line)


def _path_problem(text: str) -> str:
    """Return why a path is invalid; empty if it is inside the folder of the config."""
    folders = text.replace("\\", "/").split("/")
    if text.startswith(("/", "~", "\\")) or re.match(r"[A-Za-z]:", text):
        return "expected a path relative to the config"
    if ".." in folders:
        return "which is outside the folder of the config: move the template into it"
    if not text or "\0" in text:
        return "expected the name of a file"
    return ""


def _import(item: tree.Node, path: str) -> Import:
    return Import(path=path, name=tree.text_of(tree.dig(item, "name")) or "")


def _imports(node: tree.Node) -> tuple[Import, ...]:
    items = tree.items_of(tree.dig(node, "imports"))
    return tuple(_import(item, path) for item in items if (path := tree.text_of(tree.dig(item, "path"))))


def _known_types(node: tree.Node, templates: Collection[str]) -> dict[str, type[msgspec.Struct] | None]:
    """Return the known types with their properties; None for templates."""
    known: dict[str, type[msgspec.Struct] | None] = dict(PROPERTIES)
    for each in _imports(node):
        if each.path in templates:
            known.update(dict.fromkeys(each.names))
        elif each.names[0] in PROPERTIES:
            known.setdefault(each.path, PROPERTIES[each.names[0]])
    return known


# Resources


def _check_resource(
    node: tree.Node, path: str, known: dict[str, type[msgspec.Struct] | None]
) -> Iterator[Diagnostic]:
    type_node = tree.dig(node, "type")
    text = tree.text_of(type_node)
    if type_node is None or text is None:
        return
    if text not in known:
        message = f"unknown resource type {diagnostics.quoted(text)}. {_did_you_mean(text, tuple(known))}"
        yield diagnostics.error(type_node, diagnostics.field(path, "type"), message)
        return
    struct = known[text]
    if struct is None or not isinstance(node, tree.Mapping):
        return
    yield from rules.check_fields(node, {"name": _check_first_letter}, path)
    properties, at = node.get("properties"), diagnostics.field(path, "properties")
    if properties is not None and not isinstance(properties, tree.Mapping):
        return
    yield from structural_validation.check(
        properties or tree.Mapping({}, {}, node.line, node.column), struct, at
    )
    yield from rules.check_fields(properties, {"namespace": rules.check_namespace, "image": _check_image}, at)


_check_first_letter = rules.text_check(
    rules.starts_without_digit, "a name that starts with a letter, because Services are named after it"
)
_check_image = rules.text_check(re.compile(r"\S+").fullmatch, "the name of an image, without spaces")


def _check_names(
    node: tree.Node, path: str, known: dict[str, type[msgspec.Struct] | None]
) -> Iterator[Diagnostic]:
    """Check that names are unique. A resource of a template needs none: the template may not use it."""
    first_lines: dict[str, int] = {}
    for index, resource in enumerate(tree.items_of(tree.dig(node, "resources"))):
        name_node = tree.dig(resource, "name")
        type_node = tree.dig(resource, "type")
        has_default = known.get(tree.text_of(type_node) or "") is not None
        name_or_type = name_node or (type_node if has_default else None)
        name = tree.text_of(name_or_type)
        if name_or_type is None or not name:
            continue
        if name in first_lines:
            at = diagnostics.field(diagnostics.item(path, index), "name")
            found = "found" if name_node else "found no name, and the default is"
            message = (
                f"{found} {diagnostics.quoted(name)}, which is also the name of the resource in line "
                f"{first_lines[name]}: give each resource its own name"
            )
            yield diagnostics.error(name_or_type, at, message, Rule.DUPLICATE_NAME)
        first_lines.setdefault(name, name_or_type.line)


# The jobs of clusters


def _check_jobs(
    node: tree.Node, path: str, known: dict[str, type[msgspec.Struct] | None]
) -> Iterator[Diagnostic]:
    """Check that clusters have tasks, and valid job names that are unique in their namespace: Services are named after
    jobs, not after clusters."""
    first_lines: dict[tuple[str, str], int] = {}
    for index, resource in enumerate(tree.items_of(tree.dig(node, "resources"))):
        if known.get(tree.text_of(tree.dig(resource, "type")) or "") is not TensorFlowCluster:
            continue
        properties = tree.dig(resource, "properties")
        namespace = tree.text_of(tree.dig(properties, "namespace")) or ""
        jobs = tree.dig(properties, "jobs")
        at = diagnostics.field(diagnostics.item(path, index), "properties", "jobs")
        if isinstance(jobs, tree.Sequence) and not any(map(_has_tasks, jobs.items)):
            message = "no job has tasks, so nothing would run: add one, such as {name: worker, num_tasks: 2}"
            yield diagnostics.error(jobs, at, message, Rule.NO_TASKS)
        for number, job in enumerate(tree.items_of(jobs)):
            name = tree.dig(job, "name")
            if name is not None:
                yield from _check_job_name(
                    name, diagnostics.field(diagnostics.item(at, number), "name"), namespace, first_lines
                )


def _check_job_name(
    node: tree.Node, path: str, namespace: str, first_lines: dict[tuple[str, str], int]
) -> Iterator[Diagnostic]:
    yield from _check_first_letter(node, path)
    name = tree.text_of(node)
    if name is None:
        return
    if (namespace, name) in first_lines:
        line = first_lines[namespace, name]
        message = (
            f"found {diagnostics.quoted(name)}, also the name of the job in line {line}: choose another name"
        )
        yield diagnostics.error(node, path, message, Rule.DUPLICATE_NAME)
    first_lines.setdefault((namespace, name), node.line)
    if re.fullmatch(names.ROLE_NAME_PATTERN, name) and not role_names.is_member(name):
        message = (
            f"found {diagnostics.quoted(name)}, a name reserved for roles outside the TensorFlow cluster: choose "
            "another name"
        )
        yield diagnostics.error(node, path, message)


def _has_tasks(job: tree.Node) -> bool:
    """Return whether a job has tasks. An invalid number counts as tasks, because it has its own diagnostic."""
    number = tree.dig(job, "num_tasks")
    return not (isinstance(number, tree.Scalar) and number.value == 0)


def _did_you_mean(name: str, known: tuple[str, ...]) -> str:
    nearest = diagnostics.nearest(name, known)
    listed = ", ".join(diagnostics.truncate(each) for each in known)
    suggestion = f"Did you mean {diagnostics.quoted(nearest)}? " if nearest else ""
    return f"{suggestion}Known types: {listed}."
