"""Check names of objects, and keys and values of labels in a job file."""

import re
from collections.abc import Iterator

from windlass.k8s.formats import is_object_name
from windlass.model import names
from windlass.wire import diagnostics, structural_validation
from windlass.wire.diagnostics import Diagnostic
from windlass.wire.yaml import tree

RESERVED_ANNOTATIONS = {names.RUNTIME_ANNOTATION: "runtime", names.BARRIER_ANNOTATION: "barrier"}
"""Annotations that have their own field in the job file."""

_KEY = re.compile(r"(?:([^/]{1,253})/)?([A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")
_VALUE = re.compile(r"(?=.{0,63}\Z)(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def check_namespace(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if text and re.fullmatch(names.DNS_LABEL_PATTERN, text) is None:
        yield from structural_validation.wrong_type(
            node, "a DNS label: 1 to 63 lower-case letters, digits and hyphens", path
        )


def check_image(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    text = tree.text_of(node)
    if text is not None and re.search(r"\s", text):
        yield from structural_validation.wrong_type(node, "the name of an image, without spaces", path)


def check_object(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    """Check the name of an object. An empty name counts as absent."""
    text = tree.text_of(node)
    if text and not is_object_name(text):
        expected = "the name of an object: lower-case letters, digits, hyphens and dots"
        yield from structural_validation.wrong_type(node, expected, path)


def check_objects(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    for index, item in enumerate(tree.items_of(node)):
        yield from check_object(item, diagnostics.item(path, index))


def check_labels(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    yield from _check_keys(node, path)
    for key, value in node.entries.items() if isinstance(node, tree.Mapping) else ():
        text = tree.text_of(value)
        if text is not None and not _VALUE.fullmatch(text):
            yield from structural_validation.wrong_type(
                value,
                "at most 63 letters, digits, hyphens, underscores and dots, with a letter or digit at both ends",
                diagnostics.field(path, key),
            )


def check_annotations(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    yield from _check_keys(node, path)
    for key, place in node.keys.items() if isinstance(node, tree.Mapping) else ():
        if key in RESERVED_ANNOTATIONS:
            message = f"the job file has a field for this: write {RESERVED_ANNOTATIONS[key]}"
            yield diagnostics.error(place, diagnostics.field(path, key), message)


def _check_keys(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    for key, place in node.keys.items() if isinstance(node, tree.Mapping) else ():
        found = _KEY.fullmatch(key)
        if found is None or (found[1] is not None and not is_object_name(found[1])):
            yield diagnostics.error(
                place,
                diagnostics.field(path, key),
                f"found {diagnostics.quoted(key)}, expected a name such as team or example.com/team: "
                "at most 63 letters, digits, hyphens, underscores and dots",
            )
