"""What `windlass run` is given: one Framework, and what else has to be there before it. Pure: bytes in, values out."""

from collections.abc import Iterator, Sequence

import msgspec

from windlass.model import names
from windlass.model.base import Json
from windlass.wire import faults, parsing, shape, text, tree, validation
from windlass.wire.faults import Fault, Rule, Severity

DEFAULT_NAMESPACE = "default"
_LIST = "List"


class Plan(msgspec.Struct, frozen=True):
    """How it is to be run."""

    nodes: int = 1
    network: str = "auto"
    timeout: float | None = None
    """Seconds for all of it."""
    shows_logs: bool = True


class Job(msgspec.Struct, frozen=True):
    framework: Json
    """As it was written, with its namespace."""
    others: tuple[Json, ...] = ()
    """To be created before it, in this order."""

    @property
    def name(self) -> str:
        name: str = self.framework["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.framework["metadata"]["namespace"]
        return namespace

    @property
    def group(self) -> str:
        return names.group_of(self.framework["apiVersion"])

    @property
    def tasks(self) -> tuple[str, ...]:
        """What its pods are called for short: `worker-0`."""
        return tuple(
            f"{role['name']}-{index}"
            for role in self.framework["spec"].get("taskRoles") or ()
            for index in range(role.get("taskNumber") or 0)
        )


class Read(msgspec.Struct, frozen=True):
    job: Job | None
    """None if anything is wrong."""
    faults: tuple[Fault, ...]
    """Of the whole file, in the order of its lines, warnings among them."""


class _Item(msgspec.Struct, frozen=True):
    """A document, or an item of a list."""

    node: tree.Node
    path: str = ""

    @property
    def kind(self) -> str | None:
        return tree.text_of(tree.dig(self.node, "kind"))

    @property
    def is_framework(self) -> bool:
        """Or was meant to be one."""
        return self.kind is None or faults.nearest(self.kind, (names.KIND,)) is not None


def read(data: bytes, file: str) -> Read:
    """The Framework is held to what `windlass lint` holds it to; the rest is for the API server to judge."""
    parsed = parsing.parse(data)
    documents = [document for document in parsed.documents if not document.is_empty]
    items = [item for document in documents for item in _items(document.root)]
    found = [] if parsed.failure is None else [parsed.failure]
    for document in documents:
        found.extend(document.faults)
    for item in items:
        found.extend(_as_an_obstacle(fault) for fault in _check(item))
    if parsed.failure is None:
        found.extend(_check_number(items))
    gathered = faults.gathered(found, file)
    is_usable = not any(fault.is_error for fault in gathered)
    return Read(_job(items) if is_usable else None, gathered)


def _items(root: tree.Node) -> Iterator[_Item]:
    kind = tree.text_of(tree.dig(root, "kind")) or ""
    nodes = tree.items_of(tree.dig(root, "items"))
    if not kind.endswith(_LIST) or not nodes:
        yield _Item(root)
        return
    for index, node in enumerate(nodes):
        yield _Item(node, faults.item("items", index))


def _check(item: _Item) -> Iterator[Fault]:
    node = item.node
    if not isinstance(node, tree.Mapping):
        yield from shape.wrong_type(
            node, "an object: a mapping with apiVersion, kind and metadata", item.path
        )
    elif item.is_framework:
        yield from validation.check(node, item.path)
    else:
        yield from _check_other(node, item.path)


def _check_other(node: tree.Mapping, path: str) -> Iterator[Fault]:
    """Only what is needed to send it to the right place."""
    metadata = faults.field(path, "metadata")
    for outer, name, value in (
        (path, "apiVersion", tree.dig(node, "apiVersion")),
        (metadata, "name", tree.dig(node, "metadata", "name")),
        (metadata, "namespace", tree.dig(node, "metadata", "namespace")),
    ):
        if value is not None and tree.text_of(value) is None:
            yield from shape.wrong_type(value, "a string", faults.field(outer, name))
        elif value is None and name != "namespace":
            yield faults.error(node, outer, f'the field "{name}" is missing: every object needs one')


def _check_number(items: Sequence[_Item]) -> Iterator[Fault]:
    frameworks = [item for item in items if item.is_framework]
    if not frameworks:
        at = items[0].node if items else text.Place(1, 1)
        yield faults.error(at, "", "there is no Framework in the file, expected exactly one")
    for further in frameworks[1:]:
        yield faults.error(
            further.node,
            further.path,
            f"this is a second Framework (the first stands in line {frameworks[0].node.line}), "
            "and one is run at a time: give each a file of its own",
        )


def _as_an_obstacle(fault: Fault) -> Fault:
    """As lint has it: whoever starts a job should not find out at its end that a field was misspelt."""
    return fault.with_severity(Severity.ERROR) if fault.rule == Rule.MISSPELT_FIELD else fault


def _job(items: Sequence[_Item]) -> Job:
    """Of a file without errors."""
    (framework,) = (tree.plain(item.node) for item in items if item.is_framework)
    others = (tree.plain(item.node) for item in items if not item.is_framework)
    # A null is an absent field to Kubernetes, also here.
    namespace = framework["metadata"].get("namespace") or DEFAULT_NAMESPACE
    return Job(
        {**framework, "metadata": {**framework["metadata"], "namespace": namespace}},
        tuple(others),
    )
