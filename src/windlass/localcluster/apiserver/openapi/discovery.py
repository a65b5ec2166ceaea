"""Discovery documents: groups, versions, resources and their verbs, computed from the kinds."""

import base64
import hashlib
import platform
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from windlass.localcluster.apiserver.kinds.kind import VERBS, Kind

Document = dict[str, Any]
AggregatedVersion = Literal["v2", "v2beta1"]

KUBERNETES_VERSION: Final = "1.37.1"
"""The Kubernetes release that the conformance transcripts were recorded from, and that `/version` reports."""

# Clients resolve a short name in the first group that has it. The order is that of Kubernetes. All other groups
# follow, ordered by name.
_FIRST_GROUPS = (
    "apps",
    "autoscaling",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
)

_VERSION_NAME = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STAGES = {None: 3, "beta": 2, "alpha": 1}

_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_GO_ARCHITECTURES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}


class Subresource(msgspec.Struct, frozen=True):
    """A subresource, and the kind of the objects that are read or written through it."""

    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


_OBJECT_VERBS = ("get", "patch", "update")
_CONNECT_VERBS = ("create", "get")
# Subresources that differ from `status`. An empty kind means the kind of the parent.
_SUBRESOURCES = {
    "scale": Subresource(_OBJECT_VERBS, "autoscaling", "v1", "Scale"),
    "log": Subresource(("get",)),
    "exec": Subresource(_CONNECT_VERBS, "", "v1", "PodExecOptions"),
    "attach": Subresource(_CONNECT_VERBS, "", "v1", "PodAttachOptions"),
    "portforward": Subresource(_CONNECT_VERBS, "", "v1", "PodPortForwardOptions"),
    "eviction": Subresource(("create",), "policy", "v1", "Eviction"),
    "binding": Subresource(("create",), "", "v1", "Binding"),
    "token": Subresource(("create",), "authentication.k8s.io", "v1", "TokenRequest"),
    "finalize": Subresource(("update",)),
}


def subresource(kind: Kind, name: str) -> Subresource:
    """Return the subresource of this name. The name "" stands for the object itself."""
    found = _SUBRESOURCES.get(name, Subresource(_OBJECT_VERBS))
    if found.kind:
        return found
    return Subresource(found.verbs, kind.group, kind.version, kind.kind)


def group_version_kind(target: Kind | Subresource) -> Document:
    return {"group": target.group, "version": target.version, "kind": target.kind}


def verbs(kind: Kind) -> tuple[str, ...]:
    if kind.verbs:
        return kind.verbs
    if kind.is_custom:
        return _CUSTOM_VERBS
    # As in Kubernetes, namespaces have no deletecollection.
    if kind.resource == "namespaces":
        return tuple(verb for verb in VERBS if verb != "deletecollection")
    return VERBS


def core_versions(address: str) -> Document:
    """Return the document at `/api`. `address` is the server's host and port."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(kinds: Sequence[Kind]) -> Document:
    """Return the document at `/apis`."""
    groups = [_group(kinds, name) for name in groups_in_order(kinds)]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: Sequence[Kind], name: str) -> Document | None:
    """Return the document at `/apis/GROUP`; None if no kind is in the group."""
    if name not in groups_in_order(kinds):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(kinds, name)


def resources(kinds: Sequence[Kind], group: str, version: str) -> Document | None:
    """Return the document at `/api/v1` (empty group) or `/apis/GROUP/VERSION`; None if the version has no kinds."""
    found = kinds_of(kinds, group, version)
    if not found:
        return None
    # Kubernetes omits the apiVersion in the core group.
    head = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
    return head | {
        "groupVersion": found[0].api_version,
        "resources": [resource for kind in found for resource in _resources(kind)],
    }


def version() -> Document:
    major, minor, _ = KUBERNETES_VERSION.split(".")
    machine = platform.machine()
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{KUBERNETES_VERSION}+windlass",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{_GO_ARCHITECTURES.get(machine, machine)}",
    }


def aggregated(kinds: Sequence[Kind], is_core: bool, version: AggregatedVersion) -> Document:
    """Return the aggregated document at `/api` (core) or `/apis`."""
    names = [""] if is_core else groups_in_order(kinds)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_aggregated_group(kinds, name) for name in names],
    }


def aggregated_content_type(version: AggregatedVersion) -> str:
    """Return the content type by which clients recognize an aggregated document."""
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def aggregated_version(accept_header: str) -> AggregatedVersion | None:
    """Return the version of aggregated discovery that the client prefers, or None if it prefers the plain documents."""
    for media_type, parameters in _accepted(accept_header):
        if media_type not in ("application/json", "application/*", "*/*"):
            continue
        if parameters.get("as") is None:
            return None
        if (parameters.get("g"), parameters["as"]) != ("apidiscovery.k8s.io", "APIGroupDiscoveryList"):
            continue
        match parameters.get("v"):
            case "v2" | "v2beta1" as version:
                return version
    return None


def groups_in_order(kinds: Iterable[Kind]) -> list[str]:
    """Return all groups except the core group, in the order in which clients search them."""
    names = {kind.group for kind in kinds} - {""}
    first = [name for name in _FIRST_GROUPS if name in names]
    return first + sorted(names.difference(first))


def versions_in_order(kinds: Iterable[Kind], group: str) -> list[str]:
    """Return the versions of a group, the preferred one first."""
    return sorted({kind.version for kind in kinds if kind.group == group}, key=_version_rank)


def kinds_of(kinds: Iterable[Kind], group: str, version: str) -> list[Kind]:
    found = (kind for kind in kinds if (kind.group, kind.version) == (group, version))
    return sorted(found, key=lambda kind: kind.plural)


def _version_rank(version: str) -> tuple[int, int, int, int, str]:
    """Return a sort key: v2, v1, v1beta2, v1beta1, v1alpha1, then other names alphabetically."""
    match = _VERSION_NAME.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    major, stage, minor = match.groups()
    return (0, -_STAGES[stage], -int(major), -int(minor or 0), version)


def _group(kinds: Iterable[Kind], name: str) -> Document:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in versions_in_order(kinds, name)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(kind: Kind) -> list[Document]:
    main: Document = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(verbs(kind)),
        **_names(kind),
    }
    if not kind.is_custom:
        stored = f"{kind.group}/{kind.version}/{kind.kind}"
        digest = hashlib.sha256(stored.encode()).digest()[:8]
        main["storageVersionHash"] = base64.b64encode(digest).decode()
    return [main] + [_subresource(kind, name) for name in subresources_in_order(kind)]


def subresources_in_order(kind: Kind) -> list[str]:
    """Return the subresources in the order of Kubernetes: by name, for custom resources status before scale."""
    return sorted(kind.subresources, reverse=kind.is_custom)


def _subresource(kind: Kind, name: str) -> Document:
    found = subresource(kind, name)
    document: Document = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": found.kind,
        "verbs": list(found.verbs),
    }
    if (found.group, found.version) != (kind.group, kind.version):
        document |= {"group": found.group, "version": found.version}
    return document


def _names(kind: Kind) -> Document:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {key: value for key, value in names.items() if value}


def _aggregated_group(kinds: Sequence[Kind], name: str) -> Document:
    versions = [
        {
            "version": version,
            "resources": [_aggregated_resource(kind) for kind in kinds_of(kinds, name, version)],
            "freshness": "Current",
        }
        for version in versions_in_order(kinds, name)
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated_resource(kind: Kind) -> Document:
    document: Document = {
        "resource": kind.plural,
        "responseKind": group_version_kind(kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(verbs(kind)),
        **_names(kind),
    }
    if kind.subresources:
        found = {name: subresource(kind, name) for name in subresources_in_order(kind)}
        document["subresources"] = [
            {"subresource": name, "responseKind": group_version_kind(each), "verbs": list(each.verbs)}
            for name, each in found.items()
        ]
    return document


def _accepted(header: str) -> Iterable[tuple[str, dict[str, str]]]:
    """Return the media types of an Accept header with their parameters, in order of preference."""
    clauses = []
    for clause in header.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        clauses.append((media_type, {name.strip(): value.strip() for name, _, value in pairs}))
    return sorted(clauses, key=lambda clause: -_quality(clause[1]))


def _quality(parameters: dict[str, str]) -> float:
    try:
        return float(parameters.get("q", "1"))
    except ValueError:
        return 0.0
