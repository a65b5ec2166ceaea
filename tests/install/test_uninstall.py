"""Uninstalling: which objects are deleted, and how they are identified."""

import asyncio

import msgspec

from windlass.install import manifests, uninstall
from windlass.install.options import InstallOptions
from windlass.install.uninstall import UninstallOptions
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request, Verb
from windlass.model.base import Json


class Restricted:
    """A server that forbids listing. It stores objects by path."""

    def __init__(self, stored: dict[str, Json]) -> None:
        self.stored = stored
        self.deletions: dict[str, Json] = {}

    async def send(self, request: Request) -> bytes:
        if request.verb == Verb.LIST:
            raise _api_error(403, "Forbidden")
        if request.path not in self.stored:
            raise _api_error(404, "NotFound")
        found = self.stored[request.path]
        if request.verb == Verb.DELETE:
            del self.stored[request.path]
            self.deletions[request.path] = msgspec.json.decode(request.body)
        return msgspec.json.encode(found)


def _api_error(code: int, reason: str) -> errors.ApiError:
    body = {"kind": "Status", "reason": reason, "message": f"{reason}, in words"}
    return errors.from_response(code, {}, msgspec.json.encode(body))


def test_objects_are_found_by_name_if_listing_is_forbidden() -> None:
    """An object with the right name but without the labels is kept."""
    made = {one["kind"]: one for one in manifests.all_of(InstallOptions(namespace="team"))}
    foreign = {"metadata": {"name": "windlass-configuration", "namespace": "team"}}
    account = "/api/v1/namespaces/team/serviceaccounts/windlass-controller"
    config = "/api/v1/namespaces/team/configmaps/windlass-configuration"
    deployment = "/apis/apps/v1/namespaces/team/deployments/windlass-controller"
    server = Restricted(
        {
            account: made["ServiceAccount"],
            deployment: made["Deployment"],
            config: foreign,
            "/api/v1/namespaces/team": made["Namespace"],
            "/apis": {"groups": []},
            "/api/v1": {"resources": [{"name": "pods", "namespaced": True, "verbs": ["list"]}]},
        }
    )

    async def remove() -> list[str]:
        options = UninstallOptions("team")
        return [line async for line in uninstall.remove(server.send, options, asyncio.sleep)]

    assert asyncio.run(remove()) == [
        "deployment.apps/windlass-controller in team deleted",
        "serviceaccount/windlass-controller in team deleted",
        "namespace/team left unchanged: its objects cannot be listed (403 Forbidden: Forbidden, in words)",
    ]
    assert {config, "/api/v1/namespaces/team"} <= set(server.stored)


def test_definitions_are_deleted_by_uid() -> None:
    """A delayed deletion must not hit the definition of a later installation."""
    frameworks, gangs = (
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        for name in ("frameworks.windlass.dev", "gangs.windlass.dev")
    )
    server = Restricted(
        {
            path: {"metadata": {"name": path.rsplit("/")[-1], "uid": f"uid of {path}"}}
            for path in (frameworks, gangs)
        }
    )

    async def remove() -> list[str]:
        options = UninstallOptions("team", deleted_groups=("windlass.dev",))
        return [line async for line in uninstall.remove(server.send, options, asyncio.sleep)]

    assert asyncio.run(remove()) == [
        "customresourcedefinition.apiextensions.k8s.io/frameworks.windlass.dev deleted, with all its Frameworks",
        "customresourcedefinition.apiextensions.k8s.io/gangs.windlass.dev deleted",
    ]
    assert {path: body["preconditions"]["uid"] for path, body in server.deletions.items()} == {
        path: f"uid of {path}" for path in (frameworks, gangs)
    }
