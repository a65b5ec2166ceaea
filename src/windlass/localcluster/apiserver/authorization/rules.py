"""Rules of roles and attributes of requests. Rules allow requests and cover other rules. No I/O."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from windlass.k8s import api_errors
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.apiserver.options import parse_boolean
from windlass.localcluster.apiserver.request_info import RequestInfo

MAX_PARTS = 10_000
_MAX_COMPARISONS = 5_000_000
_ALL = "*"
_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_COLLECTION_VERBS = {"get": "list", "delete": "deletecollection"}
_STREAMS = ("pods/attach", "pods/exec", "pods/portforward")
_NAME_SELECTOR = "metadata.name="
# kube-apiserver escapes these messages, so that a browser does not interpret them as HTML.
_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Attributes(msgspec.Struct, frozen=True):
    """The verb of a request and its target: a resource or, if `path` is set, a path that is not a resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(method: str, path: str, info: RequestInfo | None, query: Mapping[str, str]) -> Attributes:
    if info is None:
        return Attributes(method.lower(), path=path)
    verb, name = _VERBS.get(method, method.lower()), info.name
    if not name:
        verb = _COLLECTION_VERBS.get(verb, verb)
        if verb == "list" and parse_boolean(query.get("watch", "")):
            verb = "watch"
        if verb in ("list", "watch", "deletecollection"):
            name = _selected_name(query.get("fieldSelector", ""))
    is_namespace = (info.group, info.plural) == ("", "namespaces")
    return Attributes(
        verb,
        info.group,
        info.plural,
        info.subresource,
        info.name if is_namespace else info.namespace,
        name,
    )


def stream_attributes(attributes: Attributes) -> Attributes | None:
    """Return the second permission that a GET request for a stream requires; None for another request.

    A WebSocket is opened by GET but does the same as POST, so it requires `create` too.
    """
    is_stream = attributes.verb == "get" and not attributes.group and attributes.full_resource in _STREAMS
    return msgspec.structs.replace(attributes, verb="create") if is_stream else None


def _selected_name(selector: str) -> str:
    """Return the name that a field selector requires. With another operator or several names, there is none."""
    names = {
        part.removeprefix(_NAME_SELECTOR).removeprefix("=")
        for part in selector.split(",")
        if part.startswith(_NAME_SELECTOR)
    }
    return names.pop() if len(names) == 1 else ""


def forbidden(user: User, attributes: Attributes, reason: str) -> api_errors.ApiError:
    """Return the error of a request that is not allowed."""
    subject = f"User {api_errors.quoted(user.name)} cannot {attributes.verb}"
    if attributes.path:
        text = f"{subject} path {api_errors.quoted(attributes.path)}"
    else:
        resource = f"{subject} resource {api_errors.quoted(attributes.full_resource)} in API group"
        scope = f"in the namespace {api_errors.quoted(attributes.namespace)}"
        text = f'{resource} "{attributes.group}" {scope if attributes.namespace else "at the cluster scope"}'
    text = text.translate(_HTML) + (f": {reason}" if reason else "")
    resource = api_errors.resource_name(attributes.group, attributes.resource)
    if attributes.path:
        message = f"forbidden: {text}"
    elif attributes.name:
        message = f"{resource} {api_errors.quoted(attributes.name)} is forbidden: {text}"
    else:
        message = f"{resource} is forbidden: {text}"
    details = api_errors.details_of(attributes.group, attributes.resource, attributes.name)
    return api_errors.ApiError(403, "Forbidden", message, details, {"X-Content-Type-Options": "nosniff"})


class Rule(msgspec.Struct, frozen=True):
    """A PolicyRule. It applies to resources or to paths (`urls`)."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, attributes: Attributes) -> bool:
        if not _has(self.verbs, attributes.verb):
            return False
        if attributes.path:
            return any(_covers_url(url, attributes.path) for url in self.urls)
        return (
            _has(self.groups, attributes.group)
            and _covers_resource(self.resources, attributes.full_resource)
            and (not self.names or attributes.name in self.names)
        )

    def covers(self, other: "Rule") -> bool:
        """Return whether this rule grants everything that the other rule grants."""
        return (
            all(_has(self.verbs, verb) for verb in other.verbs)
            and all(_has(self.groups, group) for group in other.groups)
            and all(_covers_resource(self.resources, resource) for resource in other.resources)
            and (not self.names or (bool(other.names) and set(other.names) <= set(self.names)))
            and all(any(_covers_url(url, each) for url in self.urls) for each in other.urls)
        )

    @property
    def parts(self) -> "Iterator[Rule]":
        """The rules with one verb, one group, one resource and at most one name that together equal this rule."""
        names: list[tuple[str, ...]] = [(name,) for name in self.names] or [()]
        for group, resource, verb, name in itertools.product(self.groups, self.resources, self.verbs, names):
            yield Rule((verb,), (group,), (resource,), name)
        for url, verb in itertools.product(self.urls, self.verbs):
            yield Rule((verb,), urls=(url,))

    @property
    def size(self) -> int:
        """The number of values in the fields."""
        return sum(map(len, (self.verbs, self.groups, self.resources, self.names, self.urls)))

    @property
    def part_count(self) -> int:
        targets = len(self.groups) * len(self.resources) * max(len(self.names), 1) + len(self.urls)
        return targets * len(self.verbs)

    def __str__(self) -> str:
        fields = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "NonResourceURLs": self.urls,
            "ResourceNames": self.names,
            "Verbs": self.verbs,
        }
        return f"{{{', '.join(f'{name}:{go_list(values)}' for name, values in fields.items() if values)}}}"


def rules_of(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    return tuple(map(_rule_of, role.get("rules") or ()))


def _rule_of(rule: Mapping[str, Any]) -> Rule:
    fields = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
    return Rule(*(tuple(rule.get(field) or ()) for field in fields))


class TooManyPartsError(Exception):
    """Comparing rules would take too long."""


def uncovered(held: Iterable[Rule], granted: Iterable[Rule]) -> list[Rule]:
    """Return the parts of granted rules that the held rules do not cover. Parts that differ only in verbs are combined.

    Raise TooManyPartsError if the granted rules have more than `MAX_PARTS` values or parts, or if the comparison with
    the held rules would need too many steps.
    """
    held, granted = tuple(held), tuple(granted)
    held_size = sum(rule.size for rule in held)
    _limit(sum(rule.size for rule in granted), held_size)
    # Most rules are a copy of a held one.
    divided = [rule for rule in granted if not any(each.covers(rule) for each in held)]
    _limit(sum(rule.part_count for rule in divided), held_size)
    targets: dict[Rule, list[str]] = {}
    for part in (part for rule in divided for part in rule.parts):
        if not any(rule.covers(part) for rule in held):
            # Kubernetes does not combine the verbs of paths.
            verbs = part.verbs if part.urls else ()
            target = msgspec.structs.replace(part, verbs=verbs)
            targets.setdefault(target, []).extend(part.verbs)
    return [msgspec.structs.replace(target, verbs=tuple(verbs)) for target, verbs in targets.items()]


def _limit(count: int, held_size: int) -> None:
    if count > MAX_PARTS or count * held_size > _MAX_COMPARISONS:
        raise TooManyPartsError


def go_list(values: Iterable[str]) -> str:
    """Return strings as Go's `%q` prints a slice."""
    return f"[{' '.join(map(api_errors.quoted, values))}]"


def _has(values: tuple[str, ...], value: str) -> bool:
    return value in values or _ALL in values


def _covers_resource(resources: tuple[str, ...], resource: str) -> bool:
    if _has(resources, resource):
        return True
    _, separator, subresource = resource.partition("/")
    return bool(separator) and f"*/{subresource}" in resources


def _covers_url(url: str, path: str) -> bool:
    return url == path or (url.endswith(_ALL) and path.startswith(url.rstrip(_ALL)))
