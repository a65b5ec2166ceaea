"""Files of Frameworks and jobs: bytes → Frameworks and faults, and back.

What is a fault is said in `validation`, and of a job in `job_file`. What a job becomes is known in `render`, and what
would be wrong with that.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from windlass.model import names
from windlass.model.framework import Framework, FrameworkMetadata, FrameworkSpec
from windlass.model.status import FrameworkStatus
from windlass.wire import faults, job_file, parsing, shape, text, tree, validation, yaml_text
from windlass.wire.faults import Fault, FaultyFileError, Rule

_LISTS = (("v1", "List"), *((version, f"{names.KIND}List") for version in validation.API_VERSIONS))


class LoadedFramework(msgspec.Struct, frozen=True):
    framework: Framework
    tree: tree.Mapping
    """All that was written, also what the model does not know, with its places."""


class Loaded(msgspec.Struct, frozen=True):
    frameworks: tuple[LoadedFramework, ...]
    """Those without errors."""
    faults: tuple[Fault, ...]
    """Of the whole file, in the order of its lines."""

    @property
    def errors(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.is_error)

    @property
    def warnings(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if not fault.is_error)

    def without_errors(self) -> tuple[LoadedFramework, ...]:
        """All Frameworks of the file; raises `FaultyFileError` unless the whole file is usable."""
        if self.errors:
            raise FaultyFileError(self.errors)
        return self.frameworks


class _Candidate(msgspec.Struct, frozen=True):
    """What should be a Framework, and the faults of the document around it."""

    node: tree.Node
    path: str = ""
    faults: tuple[Fault, ...] = ()


def load(data: bytes, file: str) -> Loaded:
    """The Frameworks of a YAML or JSON file, and everything that is wrong with it. Never raises."""
    parsed = parsing.parse(data)
    documents = [document for document in parsed.documents if not document.is_empty]
    found = [parsed.failure] if parsed.failure is not None else []
    if not documents and not found:
        message = "the file is empty, expected at least one Framework or job"
        found = [faults.error(text.Place(1, 1), "", message, Rule.EMPTY_FILE)]
    loaded: list[LoadedFramework] = []
    for document in documents:
        if len(found) > faults.MOST_FAULTS:
            break
        found.extend(document.faults)
        for candidate in _candidates(document):
            own = tuple(islice(_check(candidate), faults.MOST_FAULTS + 1))
            found.extend(own)
            was_checked_to_its_end = len(own) <= faults.MOST_FAULTS
            is_usable = was_checked_to_its_end and not any(
                fault.is_error for fault in (*candidate.faults, *own)
            )
            is_a_job = job_file.is_job(candidate.node)
            if is_usable and not is_a_job and isinstance(candidate.node, tree.Mapping):
                loaded.append(LoadedFramework(_framework(candidate.node), candidate.node))
    return Loaded(tuple(loaded), faults.gathered(found, file))


def dump(loaded: LoadedFramework) -> bytes:
    """The Framework as YAML, with all that was written and nothing else.

    The tree that was read is written, not the model: so fields that Windlass does not know survive, inside the pod and
    the status as elsewhere, and defaults are not spelt out. Comments, anchors and the layout do not survive.
    """
    return yaml_text.dump(tree.plain(loaded.tree))


def _candidates(document: tree.Document) -> Iterator[_Candidate]:
    """A document is a Framework, or a list of them."""
    root = document.root
    version, kind = (tree.text_of(tree.dig(root, field)) for field in ("apiVersion", "kind"))
    items = tree.dig(root, "items")
    if (version, kind) not in _LISTS or not tree.items_of(items):
        yield _Candidate(root, "", document.faults)
        return
    for index, node in enumerate(tree.items_of(items)):
        yield _Candidate(node, faults.item("items", index), document.faults)


def _check(candidate: _Candidate) -> Iterator[Fault]:
    node = candidate.node
    if not isinstance(node, tree.Mapping):
        yield from shape.wrong_type(
            node,
            "a Framework: a mapping with apiVersion, kind, metadata, spec; or a job: one with name, command, roles",
            candidate.path,
        )
        return
    if job_file.is_job(node):
        yield from job_file.check(node, candidate.path)
        return
    kind = tree.text_of(tree.dig(node, "kind"))
    is_something_else = kind is not None and faults.nearest(kind, (names.KIND,)) is None
    if is_something_else:
        yield _another_kind(node, str(kind), candidate.path)
        return
    yield from validation.check(node, candidate.path)
    yield from _check_status(node, candidate.path)


def _another_kind(node: tree.Mapping, kind: str, path: str) -> Fault:
    version = tree.text_of(tree.dig(node, "apiVersion")) or "no apiVersion"
    return faults.error(
        tree.dig(node, "kind") or node,
        faults.field(path, "kind"),
        f"found {faults.cut(kind)} ({faults.cut(version)}), expected a {names.KIND} of "
        f"{' or '.join(validation.API_VERSIONS)}, or a List of them",
        Rule.OTHER_KIND,
    )


def _check_status(node: tree.Mapping, path: str) -> Iterator[Fault]:
    """Nobody writes a status by hand, so it is not checked: but it should not vanish without a word either."""
    status = node.get("status")
    is_written = status is not None and not (isinstance(status, tree.Mapping) and not status.entries)
    if status is not None and is_written and not _holds_faults(status) and _status(node) is None:
        yield faults.warning(
            status, faults.field(path, "status"), "this is no status that a controller wrote; it is not read"
        )


def _holds_faults(node: tree.Node) -> bool:
    match node:
        case tree.Mapping():
            return any(_holds_faults(value) for value in node.entries.values())
        case tree.Sequence():
            return any(_holds_faults(item) for item in node.items)
    return isinstance(node, tree.Invalid)


def _framework(node: tree.Mapping) -> Framework:
    """Of a tree without errors."""
    written = tree.without_nulls(tree.plain(node))
    return Framework(
        api_version=written["apiVersion"],
        kind=written["kind"],
        metadata=msgspec.convert(written["metadata"], FrameworkMetadata),
        spec=msgspec.convert(_with_pods_as_written(written["spec"], node), FrameworkSpec),
        status=_status(node),
    )


def _status(node: tree.Mapping) -> FrameworkStatus | None:
    status = node.get("status")
    try:
        return msgspec.convert(tree.plain(status), FrameworkStatus) if status is not None else None
    except msgspec.ValidationError:
        return None


def _with_pods_as_written(spec: dict[str, Any], node: tree.Mapping) -> dict[str, Any]:
    """A null may mean something to somebody who extends pods; what we do not read we do not touch."""
    for role, role_node in zip(
        spec["taskRoles"], tree.items_of(tree.dig(node, "spec", "taskRoles")), strict=True
    ):
        pod = tree.dig(role_node, "task", "pod")
        if pod is not None:
            role["task"]["pod"] = tree.plain(pod)
    return spec
