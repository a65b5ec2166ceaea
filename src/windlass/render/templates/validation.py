"""Validate the output of a template: objects with valid names and, for known kinds, valid fields."""

import re
from collections.abc import Generator, Iterator

from windlass.jobfile import reader
from windlass.k8s import types as k8s_types
from windlass.k8s.formats import is_object_name
from windlass.model import names
from windlass.wire import diagnostics, kubernetes_validation, structural_validation
from windlass.wire.diagnostics import Diagnostic, Rule
from windlass.wire.lint import framework
from windlass.wire.yaml import parse as yaml_parse
from windlass.wire.yaml import text, tree

MAX_STATEFUL_SET_NAME = 52
"""Maximum length: the value of the pod label `controller-revision-hash` is the name, a hyphen and a hash of ten
characters. Kubernetes creates no pods if the value is too long."""
_MAX_LABEL = 63
_CHECKED_API_VERSIONS = ("v1", "apps/v1", "batch/v1")
_is_dns_label = re.compile(names.DNS_LABEL_PATTERN).fullmatch
_is_service_name = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?").fullmatch
_is_label_value = re.compile(r"([A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?").fullmatch

_DNS_LABEL = "at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends"
_NAME_RULES = {
    "Service": (
        _is_service_name,
        "at most 63 lower-case letters, digits and hyphens, with a letter at the beginning and no hyphen at the end",
    ),
    "Job": (_is_dns_label, _DNS_LABEL),
    "StatefulSet": (_is_dns_label, _DNS_LABEL),
}
"""A predicate and its description, by kind."""
_DEFAULT_NAME_RULE = (
    is_object_name,
    "lower-case letters, digits, hyphens and dots, with a letter or digit at both ends",
)


def check(output: str) -> Iterator[Diagnostic]:
    """Yield diagnostics. Their positions are those in the output, not in the template."""
    parsed = yaml_parse.parse(output.encode(errors="surrogatepass"))
    if parsed.failure is not None:
        yield parsed.failure
    documents = [document for document in parsed.documents if not document.is_empty]
    identities: set[tuple[str, ...]] = set()
    for document in documents:
        yield from document.diagnostics
        for node, path in _items(document.root):
            yield from _check(node, path)
            yield from _check_identity(node, identities, path)
    if parsed.failure is None and not documents:
        message = "the output is empty, expected at least one object"
        yield diagnostics.error(text.Position(1, 1), "", message, Rule.EMPTY_FILE)


def _check_identity(node: tree.Node, identities: set[tuple[str, ...]], path: str) -> Iterator[Diagnostic]:
    """Reject a second object with the same group, kind, namespace and name."""
    kind, name = tree.text_of(tree.dig(node, "kind")), tree.dig(node, "metadata", "name")
    name_text = tree.text_of(name)
    if name is None or not kind or not name_text:
        return
    namespace = tree.text_of(tree.dig(node, "metadata", "namespace")) or ""
    group = names.group_of(tree.text_of(tree.dig(node, "apiVersion")) or "")
    identity = (group, kind, namespace, name_text)
    if identity in identities:
        found = f"found {diagnostics.quoted(name_text)}"
        message = f"{found}, which is also the name of another {kind} of the template: expected a unique name"
        at = diagnostics.field(path, "metadata", "name")
        yield diagnostics.error(name, at, message, Rule.DUPLICATE_NAME)
    identities.add(identity)


def _items(root: tree.Node) -> Iterator[tuple[tree.Node, str]]:
    items = tree.items_of(tree.dig(root, "items"))
    if tree.text_of(tree.dig(root, "kind")) != "List" or not items:
        yield root, ""
        return
    for index, item in enumerate(items):
        yield item, diagnostics.item("items", index)


def _check(node: tree.Node, path: str) -> Iterator[Diagnostic]:
    if not isinstance(node, tree.Mapping):
        expected = "an object: a mapping with apiVersion, kind and metadata"
        yield from structural_validation.wrong_value(node, expected, path)
        return
    if reader.is_job(node):
        from windlass.render import validation as job_validation

        yield from job_validation.check(node, path)
        return
    kind = yield from _required_text(node, "kind", path)
    api_version = yield from _required_text(node, "apiVersion", path)
    if not kind or not api_version:
        return
    yield from _check_name(node, kind, path)
    yield from _check_labels(node, path)
    yield from kubernetes_validation.check_api_version(node, path)
    if kind == names.KIND and names.group_of(api_version) in names.GROUPS:
        yield from framework.check(node, path)
    elif api_version in _CHECKED_API_VERSIONS and f"V1{kind}" in k8s_types.types():
        yield from kubernetes_validation.check(node, f"V1{kind}", path)
        yield from _check_derived_names(node, kind, path)


def _required_text(node: tree.Mapping, key: str, path: str) -> Generator[Diagnostic, None, str]:
    """Return a required string field. If it is missing or not a string, report that and return an empty string."""
    value = node.get(key)
    if value is None:
        message = f'missing required field "{key}"'
        yield diagnostics.error(node, path, message, Rule.MISSING_FIELD)
        return ""
    found = tree.text_of(value)
    if found is None:
        yield from structural_validation.wrong_value(value, "a string", diagnostics.field(path, key))
    return found or ""


def _check_name(node: tree.Mapping, kind: str, path: str) -> Iterator[Diagnostic]:
    path = diagnostics.field(path, "metadata")
    metadata = node.get("metadata")
    name = tree.dig(node, "metadata", "name")
    if name is None:
        if tree.dig(node, "metadata", "generateName") is None:
            message = 'missing required field "name"'
            yield diagnostics.error(metadata or node, path, message, Rule.MISSING_FIELD)
    else:
        is_valid, description = _NAME_RULES.get(kind, _DEFAULT_NAME_RULE)
        name_text = tree.text_of(name)
        if name_text is None or not is_valid(name_text):
            expected = f"the name of a {kind}: {description}"
            yield from structural_validation.wrong_value(name, expected, diagnostics.field(path, "name"))
    namespace = tree.dig(node, "metadata", "namespace")
    if namespace is not None and not _is_dns_label(tree.text_of(namespace) or ""):
        expected = f"the name of a namespace: {_DNS_LABEL}"
        yield from structural_validation.wrong_value(
            namespace, expected, diagnostics.field(path, "namespace")
        )


def _check_labels(node: tree.Mapping, path: str) -> Iterator[Diagnostic]:
    labels = tree.dig(node, "metadata", "labels")
    for key, value in labels.entries.items() if isinstance(labels, tree.Mapping) else ():
        value_text = tree.text_of(value)
        if value_text is not None and not _is_label_value(value_text):
            at = diagnostics.field(path, "metadata", "labels", key)
            expected = "the value of a label: at most 63 letters, digits, hyphens, underscores and dots"
            yield from structural_validation.wrong_value(value, expected, at)


def _check_derived_names(node: tree.Mapping, kind: str, path: str) -> Iterator[Diagnostic]:
    """Check that Kubernetes can derive label values and host names from the name of a StatefulSet or indexed Job."""
    name_node = tree.dig(node, "metadata", "name")
    name = tree.text_of(name_node)
    if name_node is None or name is None:
        return
    limit, reason = _MAX_LABEL, ""
    completions = tree.integer_of(tree.dig(node, "spec", "completions"))
    if kind == "StatefulSet":
        limit = MAX_STATEFUL_SET_NAME
        reason = (
            "Kubernetes appends a hash to the name of a StatefulSet, and creates no pods if the result is too long "
            "for a label"
        )
    elif (
        kind == "Job"
        and tree.text_of(tree.dig(node, "spec", "completionMode")) == "Indexed"
        and completions is not None
    ):
        limit = _MAX_LABEL - len(f"-{completions - 1}")
        reason = "the host name of a pod is the name of the Job, a hyphen and the index"
    # `_check_name` reports longer names.
    if limit < len(name) <= _MAX_LABEL:
        message = f"found {len(name)} characters, expected at most {limit}: {reason}"
        yield diagnostics.error(name_node, diagnostics.field(path, "metadata", "name"), message)
