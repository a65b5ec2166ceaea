"""Decode files with jobs, Frameworks, configs and other objects: bytes in, values out. Jobs are not rendered here.

Jobs of other systems, e.g. TFJobs, are converted to job files first.

Modules that only jobs need are imported on demand, because `windlass lint` of a Framework should be quick.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from windlass.convert import kinds
from windlass.convert.conversion import Conversion
from windlass.jobfile import cluster_config, overrides, reader
from windlass.jobfile.overrides import Overrides
from windlass.model import names
from windlass.model.base import Json
from windlass.model.job import Job
from windlass.render.manifest_parts import Part, RenderedObject
from windlass.wire import diagnostics, kubernetes_validation, structural_validation
from windlass.wire.diagnostics import Diagnostic, Rule, Severity
from windlass.wire.lint import framework as lint_framework
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import text, tree

if TYPE_CHECKING:
    from windlass.render.cluster_config import ConvertedConfig
    from windlass.render.validation import FileCheck


class Submission(msgspec.Struct, frozen=True):
    """A job, or a Framework that was written by hand."""

    job: Job | None = None
    framework: Json | None = None
    plain_prefix: str | None = None
    """Prefix of the task names in plain objects (default: `{job}-`)."""

    @property
    def name(self) -> str:
        return self.job.name if self.job is not None else str(self._metadata["name"])

    @property
    def namespace(self) -> str:
        """Empty if the file names none."""
        return self.job.namespace if self.job is not None else str(self._metadata.get("namespace") or "")

    @property
    def group(self) -> str:
        return (
            names.CONTROLLER_GROUP if self.framework is None else names.group_of(self.framework["apiVersion"])
        )

    @property
    def code(self) -> str:
        """Path of the code, as the job file has it. Empty if there is none."""
        return self.job.code if self.job is not None else ""

    def in_namespace(self, namespace: str) -> "Submission":
        """Set the namespace of a job that names none. A Framework is not changed."""
        if self.job is None or self.job.namespace:
            return self
        return msgspec.structs.replace(self, job=msgspec.structs.replace(self.job, namespace=namespace))

    @property
    def _metadata(self) -> Json:
        metadata: Json = (self.framework or {})["metadata"]
        return metadata


class Contents(msgspec.Struct, frozen=True):
    """A decoded file. If the file has errors, only `diagnostics` is filled."""

    submissions: tuple[Submission, ...]
    """Jobs and Frameworks in the order of the file, then the jobs of configs."""
    manifests: tuple[Json, ...]
    """Other objects of the file, unchanged."""
    diagnostics: tuple[Diagnostic, ...]
    """Errors and warnings in the order of lines."""
    configs: "tuple[ConvertedConfig, ...]" = ()
    """Configs. Their jobs are also among the submissions."""
    conversions: tuple[Conversion, ...] = ()
    """Jobs of other systems. Their jobs are also among the submissions, and their objects among the manifests."""

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.is_error)

    @property
    def has_config(self) -> bool:
        """Whether the file has a config (with imports and resources). Users of configs expect plain objects."""
        return bool(self.configs)

    @property
    def extra_manifests(self) -> tuple[Json, ...]:
        """Objects to be created before the Frameworks, in this order. Each access hashes passwords again."""
        return tuple(rendered.body for rendered in self.extra_objects(is_plain=False))

    @property
    def generated_passwords(self) -> dict[str, str]:
        """Generated passwords of notebooks in configs, by notebook. They are shown once."""
        return {
            name: password for config in self.configs for name, password in config.generated_passwords.items()
        }

    def extra_objects(self, *, is_plain: bool) -> tuple[RenderedObject, ...]:
        """Return all objects except jobs and Frameworks. `is_plain`: whether jobs become plain objects
        instead of Frameworks."""
        configured = [
            rendered for config in self.configs for rendered in config.rendered_objects(is_plain=is_plain)
        ]
        return (*(RenderedObject(Part.OTHERS, body) for body in self.manifests), *configured)


class _Item(msgspec.Struct, frozen=True):
    """A document, or an item of a List."""

    node: tree.Node
    path: str = ""
    conversion: Conversion | None = None
    """The conversion that the document is the result of."""
    original: tree.Node | None = None
    """The object that was converted."""

    @property
    def kind(self) -> str | None:
        return tree.text_of(tree.dig(self.node, "kind"))

    @property
    def is_config(self) -> bool:
        return cluster_config.is_config(self.node)

    @property
    def is_job(self) -> bool:
        return self.conversion is not None or (not self.is_config and reader.is_job(self.node))

    @property
    def is_framework(self) -> bool:
        """Whether it is a Framework, or may be meant as one because its kind is misspelt or missing."""
        has_similar_kind = self.kind is None or diagnostics.nearest(self.kind, (names.KIND,)) is not None
        return not self.is_job and not self.is_config and has_similar_kind

    @property
    def is_submission(self) -> bool:
        return self.is_job or self.is_framework

    @property
    def is_other(self) -> bool:
        return not self.is_submission and not self.is_config


def template_paths(data: bytes) -> tuple[str, ...]:
    """Return the paths of templates that configs import, relative to the file. The caller reads those that exist."""
    if b"imports" not in data:
        return ()
    items = (item for document in yaml_parse.parse(data).documents for item in _items(document.root))
    return tuple(path for item in items if item.is_config for path in cluster_config.import_paths(item.node))


def read(
    data: bytes,
    file: str,
    namespace: str = "",
    templates: Mapping[str, str] | None = None,
    changes: Overrides = Overrides(),  # noqa: B008 — Overrides is frozen
    check_files: "FileCheck | None" = None,
) -> Contents:
    """Decode a file and check its jobs, Frameworks and configs as `windlass lint` does. Other objects only need
    apiVersion, kind and name.

    `namespace` is the default for jobs without one; empty if unknown. `templates` are the texts of the files of
    `template_paths`, by path. `changes` are applied to all job files before they are checked. `check_files` checks the
    files that a job names.
    """
    templates = templates or {}
    parsed = yaml_parse.parse(data)
    documents = [document for document in parsed.documents if not document.is_empty]
    items = _converted([item for document in documents for item in _items(document.root)])
    if changes:
        items, errors = _overridden(items, changes)
        if errors:
            return Contents((), (), diagnostics.collect(errors, file))
    checked = _diagnostics(parsed, documents, items, namespace, templates, check_files)
    found = diagnostics.collect((overrides.with_source(each, changes) for each in checked), file)
    if any(diagnostic.is_error for diagnostic in found):
        return Contents((), (), found)
    configs = tuple(_convert_config(item, templates) for item in items if item.is_config)
    submissions = (
        *(
            Submission(job=reader.job_of(item.node))
            if item.is_job
            else Submission(framework=tree.plain(item.node))
            for item in items
            if item.is_submission
        ),
        *(Submission(job=job, plain_prefix=config.prefix) for config in configs for job in config.jobs),
    )
    conversions = tuple(item.conversion for item in items if item.conversion is not None)
    manifests = (
        *(tree.plain(item.node) for item in items if item.is_other),
        *(body for conversion in conversions for body in conversion.objects),
    )
    return Contents(submissions, manifests, found, configs, conversions)


def _diagnostics(
    parsed: tree.Parsed,
    documents: Sequence[tree.Document],
    items: Sequence[_Item],
    namespace: str,
    templates: Mapping[str, str],
    check_files: "FileCheck | None",
) -> Iterator[Diagnostic]:
    """Yield diagnostics lazily, because their number is limited."""
    if parsed.failure is not None:
        yield parsed.failure
    for document in documents:
        yield from document.diagnostics
    for item in items:
        found = _check(item, templates, check_files)
        yield from (_with_final_severity(diagnostic, item) for diagnostic in found)
    if parsed.failure is None:
        yield from _check_has_jobs(items)
        yield from _check_names(items, namespace)


def _converted(items: Sequence[_Item]) -> list[_Item]:
    """Return the items with jobs of other systems converted, and without the objects that became part of one."""
    found = [None if item.is_job or item.is_config else kinds.kind_of(item.node) for item in items]
    if not any(found):
        return list(items)
    has_jobs = any(item.is_submission or item.is_config for item in items)
    has_jobs = has_jobs or any(kind is not None and not kind.is_fallback for kind in found)
    chosen = [None if kind is None or (kind.is_fallback and has_jobs) else kind for kind in found]
    others = [
        tree.plain(item.node)
        for item, kind in zip(items, chosen, strict=True)
        if kind is None and isinstance(item.node, tree.Mapping) and not kinds.has_invalid(item.node)
    ]
    converted: list[_Item] = []
    used: list[Json] = []
    for item, kind in zip(items, chosen, strict=True):
        if kind is None:
            converted.append(item)
            continue
        conversion = kinds.convert(tree.plain(item.node), kind, others)
        used += conversion.used
        converted.append(_Item(kinds.job_node(conversion, item.node), item.path, conversion, item.node))
    return [item for item in converted if not used or item.conversion or tree.plain(item.node) not in used]


def _check_converted(item: _Item, conversion: Conversion) -> Iterator[Diagnostic]:
    """Check a converted job. The diagnostics refer to the original, whose files are in its image."""
    from windlass.render import validation

    yield from kinds.diagnostics_of(conversion, item.original or item.node, item.path)
    if not conversion.is_refused:
        for diagnostic in validation.check(item.node, ""):
            yield kinds.in_original(_with_final_severity(diagnostic, item), conversion, item.path)


def _overridden(items: Sequence[_Item], changes: Overrides) -> tuple[list[_Item], tuple[Diagnostic, ...]]:
    """Return the items with changed job files, and errors."""
    jobs = {at: item.node for at, item in enumerate(items) if item.is_job}
    mappings = [node for node in jobs.values() if isinstance(node, tree.Mapping)]
    if not mappings:
        at = items[0].node if items else text.Position(1, 1)
        message = f"{changes.source}: only job files can be changed this way, and there is none in this file"
        return list(items), (diagnostics.error(at, "", message),)
    changed, errors = overrides.applied(mappings, changes)
    nodes = dict(zip(jobs, changed, strict=True))
    changed_items = [
        msgspec.structs.replace(item, node=nodes[at]) if at in nodes else item
        for at, item in enumerate(items)
    ]
    return changed_items, errors


def _items(root: tree.Node) -> Iterator[_Item]:
    kind = tree.text_of(tree.dig(root, "kind")) or ""
    nodes = tree.items_of(tree.dig(root, "items"))
    if not kind.endswith("List") or not nodes:
        yield _Item(root)
        return
    for index, node in enumerate(nodes):
        yield _Item(node, diagnostics.item("items", index))


def _check(
    item: _Item, templates: Mapping[str, str], check_files: "FileCheck | None"
) -> Iterator[Diagnostic]:
    node = item.node
    if not isinstance(node, tree.Mapping):
        expected = "a job file, or an object: a mapping with apiVersion, kind and metadata"
        yield from structural_validation.wrong_value(node, expected, item.path)
    elif item.conversion is not None:
        yield from _check_converted(item, item.conversion)
    elif item.is_config:
        from windlass.render import cluster_config as render_config

        yield from render_config.check(node, item.path, templates)
    elif item.is_job:
        from windlass.render import validation

        yield from validation.check(node, item.path, check_files)
    elif item.is_framework:
        yield from lint_framework.check(node, item.path)
        yield from lint_framework.check_status(node, item.path)
    else:
        yield from _check_other(node, item.path)


def _check_other(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    """Check the fields that are needed to send the object to the API server."""
    metadata = diagnostics.field(path, "metadata")
    for outer, name, value in (
        (path, "apiVersion", tree.dig(node, "apiVersion")),
        (metadata, "name", tree.dig(node, "metadata", "name")),
        (metadata, "namespace", tree.dig(node, "metadata", "namespace")),
    ):
        if value is not None and tree.text_of(value) is None:
            yield from structural_validation.wrong_value(value, "a string", diagnostics.field(outer, name))
        elif value is None and name != "namespace":
            message = f'missing required field "{name}"'
            yield diagnostics.error(node, outer, message, Rule.MISSING_FIELD)
    yield from kubernetes_validation.check_api_version(node, path)


def _check_has_jobs(items: Sequence[_Item]) -> Iterator[Diagnostic]:
    if all(item.is_other for item in items):
        at = items[0].node if items else text.Position(1, 1)
        message = "the file has no job and no Framework, expected at least one"
        yield diagnostics.error(at, "", message, Rule.OTHER_KIND if items else Rule.EMPTY_FILE)


def _check_names(items: Sequence[_Item], namespace: str) -> Iterator[Diagnostic]:
    """Report names of jobs and Frameworks that are not unique in a namespace, even across API groups."""
    first_lines: dict[tuple[str, str], int] = {}
    for item in items:
        above = () if item.is_job else ("metadata",)
        node = tree.dig(item.node, *above, "name")
        name = tree.text_of(node)
        if node is None or name is None or not item.is_submission:
            continue
        identity = tree.text_of(tree.dig(item.node, *above, "namespace")) or namespace, name
        if identity in first_lines:
            message = (
                f"found {diagnostics.quoted(name)}, which is also the name of the job in line "
                f"{first_lines[identity]}: expected a unique name"
            )
            path = diagnostics.field(item.path, *above, "name")
            yield diagnostics.error(node, path, message, Rule.DUPLICATE_NAME)
        first_lines.setdefault(identity, node.line)


def _with_final_severity(diagnostic: Diagnostic, item: _Item) -> Diagnostic:
    """Return the diagnostic of a misspelt field, and of any unknown field of a job file, as an error, and any other
    diagnostic unchanged.

    A field of a Framework's pod template that only has the wrong case stays a warning, so that the examples of
    FrameworkController can be run. As with FrameworkController, the field is stored in the Framework, but not in the
    pods.
    """
    if item.is_job and diagnostic.rule is Rule.UNKNOWN_FIELD:
        return diagnostic.with_severity(Severity.ERROR)
    if diagnostic.rule is not Rule.MISSPELT_FIELD:
        return diagnostic
    parent, _, key = diagnostic.path.rpartition(".")
    is_in_pod_template = not item.is_job and ".task.pod" in parent
    meant = diagnostic.fix.becomes if diagnostic.fix is not None else ""
    if is_in_pod_template and key.lower() == meant.lower():
        return diagnostic
    return diagnostic.with_severity(Severity.ERROR)


def _convert_config(item: _Item, templates: Mapping[str, str]) -> "ConvertedConfig":
    from windlass.render import cluster_config as render_config

    return render_config.convert(item.node, templates)
