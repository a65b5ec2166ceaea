"""Removing without the right to look around in the whole cluster."""

import asyncio

import msgspec

from windlass.install import manifests, removing
from windlass.install.plan import Plan
from windlass.install.removing import Removal
from windlass.kubeapi import errors
from windlass.kubeapi.requests import Request, Verb
from windlass.model.base import Json


class Restricted:
    """Lets nobody list, nor touch what is outside of one namespace, whose objects it keeps by path."""

    def __init__(self, stored: dict[str, Json]) -> None:
        self.stored = stored

    async def send(self, request: Request) -> bytes:
        if request.verb == Verb.LIST:
            raise _refusal(403, "Forbidden")
        if request.path not in self.stored:
            raise _refusal(404, "NotFound")
        found = self.stored[request.path]
        if request.verb == Verb.DELETE:
            del self.stored[request.path]
        return msgspec.json.encode(found)


def _refusal(code: int, reason: str) -> errors.ApiError:
    body = {"kind": "Status", "reason": reason, "message": f"{reason}, in words"}
    return errors.from_answer(code, {}, msgspec.json.encode(body))


def test_found_by_name_where_nothing_may_be_listed() -> None:
    """What has our name but not our labels is somebody else's."""
    made = {one["kind"]: one for one in manifests.all_of(Plan(namespace="team"))}
    stranger = {"metadata": {"name": "windlass-configuration", "namespace": "team"}}
    account = "/api/v1/namespaces/team/serviceaccounts/windlass-controller"
    config = "/api/v1/namespaces/team/configmaps/windlass-configuration"
    deployment = "/apis/apps/v1/namespaces/team/deployments/windlass-controller"
    server = Restricted(
        {
            account: made["ServiceAccount"],
            deployment: made["Deployment"],
            config: stranger,
            "/api/v1/namespaces/team": made["Namespace"],
            "/apis": {"groups": []},
            "/api/v1": {"resources": [{"name": "pods", "namespaced": True, "verbs": ["list"]}]},
        }
    )

    async def remove() -> list[str]:
        removal = Removal("team")
        return [line async for line in removing.remove(server.send, removal, asyncio.sleep)]

    assert asyncio.run(remove()) == [
        "deployment.apps/windlass-controller in team deleted",
        "serviceaccount/windlass-controller in team deleted",
        "namespace/team left as it is: what is in it cannot be seen (403 Forbidden: Forbidden, in words)",
    ]
    assert {config, "/api/v1/namespaces/team"} <= set(server.stored)
