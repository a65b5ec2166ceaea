"""Method, path and body of each request builder."""

import json
from typing import Any

import pytest

from windlass.kubeapi import requests, resources
from windlass.kubeapi.requests import METADATA_ONLY, Request
from windlass.kubeapi.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    PODS,
    Resource,
)

FRAMEWORKS = resources.frameworks("launcher.microsoft.com")


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("team",), "/api/v1/namespaces/team/pods"),
        (PODS, ("team", "a", "status"), "/api/v1/namespaces/team/pods/a/status"),
        (EVENTS, ("team",), "/api/v1/namespaces/team/events"),
        (NAMESPACES, ("", "team"), "/api/v1/namespaces/team"),
        (LEASES, ("team", "a"), "/apis/coordination.k8s.io/v1/namespaces/team/leases/a"),
        (
            CUSTOM_RESOURCE_DEFINITIONS,
            ("ignored", "a.b"),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a.b",
        ),
        (FRAMEWORKS, ("t", "a"), "/apis/launcher.microsoft.com/v1/namespaces/t/frameworks/a"),
        (PODS, ("team", "../../secrets"), "/api/v1/namespaces/team/pods/..%2F..%2Fsecrets"),
        (PODS, ("team?x", "a#b"), "/api/v1/namespaces/team%3Fx/pods/a%23b"),
    ],
)
def test_path_of_a_resource(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    assert resource.path(*arguments) == path


@pytest.mark.parametrize(
    ("request_", "verb", "line", "query"),
    [
        (requests.get(PODS, "t", "a"), "get", "GET /api/v1/namespaces/t/pods/a", {}),
        (requests.list_page(PODS), "list", "GET /api/v1/pods", {"limit": "500"}),
        (
            requests.list_page(PODS, "t", "a=b,c", 7, "more"),
            "list",
            "GET /api/v1/namespaces/t/pods",
            {"labelSelector": "a=b,c", "limit": "7", "continue": "more"},
        ),
        (requests.list_page(PODS, limit=0), "list", "GET /api/v1/pods", {}),
        (
            requests.watch(PODS, "t", "a=b", "12", 9),
            "watch",
            "GET /api/v1/namespaces/t/pods",
            {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "labelSelector": "a=b",
                "resourceVersion": "12",
                "timeoutSeconds": "9",
            },
        ),
        (
            requests.create(PODS, "t", b"{}", "me"),
            "create",
            "POST /api/v1/namespaces/t/pods",
            {"fieldManager": "me"},
        ),
        (requests.replace(LEASES, "t", "a", b"{}"), "update", f"PUT {LEASES.path('t', 'a')}", {}),
        (
            requests.json_patch(FRAMEWORKS, "t", "a", b"[]", "status", "me"),
            "patch",
            f"PATCH {FRAMEWORKS.path('t', 'a', 'status')}",
            {"fieldManager": "me"},
        ),
        (requests.merge_patch(PODS, "t", "a", b"{}"), "patch", "PATCH /api/v1/namespaces/t/pods/a", {}),
        (requests.delete(PODS, "t", "a"), "delete", "DELETE /api/v1/namespaces/t/pods/a", {}),
        (
            requests.delete_collection(PODS, "t", "a=b"),
            "deletecollection",
            "DELETE /api/v1/namespaces/t/pods",
            {"labelSelector": "a=b"},
        ),
    ],
)
def test_requests(request_: Request, verb: str, line: str, query: dict[str, str]) -> None:
    assert (request_.verb, str(request_), dict(request_.query)) == (verb, line, query)


@pytest.mark.parametrize(
    ("request_", "content_type"),
    [
        (requests.get(PODS, "t", "a"), ""),
        (requests.create(PODS, "t", b"{}"), "application/json"),
        (requests.replace(PODS, "t", "a", b"{}"), "application/json"),
        (requests.json_patch(PODS, "t", "a", b"[]"), "application/json-patch+json"),
        (requests.merge_patch(PODS, "t", "a", b"{}"), "application/merge-patch+json"),
        (requests.delete(PODS, "t", "a"), "application/json"),
    ],
)
def test_content_types(request_: Request, content_type: str) -> None:
    assert request_.content_type == content_type
    assert bool(request_.body) == bool(content_type)


@pytest.mark.parametrize(
    ("request_", "options"),
    [
        (requests.delete(PODS, "t", "a"), {}),
        (
            requests.delete(PODS, "t", "a", uid="u", resource_version="3"),
            {"preconditions": {"uid": "u", "resourceVersion": "3"}},
        ),
        (requests.delete(PODS, "t", "a", grace_seconds=0), {"gracePeriodSeconds": 0}),
        (
            requests.delete_collection(CONFIG_MAPS, "t", "a", propagation="Background"),
            {"propagationPolicy": "Background"},
        ),
    ],
)
def test_delete_options(request_: Request, options: dict[str, Any]) -> None:
    assert json.loads(request_.body) == {"apiVersion": "v1", "kind": "DeleteOptions", **options}


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (requests.get(PODS, "t", "a"), "PartialObjectMetadata"),
        (requests.watch(PODS), "PartialObjectMetadata"),
        (requests.create(PODS, "t", b"{}"), "PartialObjectMetadata"),
        (requests.list_page(PODS), "PartialObjectMetadataList"),
        (requests.delete_collection(PODS, "t", "a"), "PartialObjectMetadataList"),
    ],
)
def test_metadata_only_depends_on_the_kind_of_response(request_: Request, kind: str) -> None:
    accept = request_.with_accept(METADATA_ONLY).accept
    assert accept == f"application/json;as={kind};g=meta.k8s.io;v=v1,application/json"
    assert request_.accept == "application/json"
