"""The permissions that `windlass run` and `windlass local up` grant to pods."""

import asyncio
from pathlib import Path

import pytest

from windlass.kubeapi import access
from windlass.kubeapi.transport import Transport
from windlass.localcluster.apiserver.authorization.authorizer import Authorizer
from windlass.localcluster.apiserver.authorization.rules import Attributes
from windlass.localcluster.apiserver.authorization.users import User, account_groups, account_name
from windlass.localcluster.server import ApiServer
from windlass.model import names
from windlass.runner import grants

BARRIER = User(account_name("train", "default"), account_groups("train"))


@pytest.mark.parametrize(
    ("verb", "group", "resource", "is_allowed"),
    [
        ("get", names.GANG_GROUP, names.GANG_PLURAL, True),
        ("watch", names.GANG_GROUP, names.GANG_PLURAL, True),
        ("patch", names.GANG_GROUP, names.GANG_PLURAL, False),
        ("get", "", "secrets", False),
        ("list", "", "pods", False),
    ],
)
def test_service_accounts_may_read_gangs_and_nothing_else(
    verb: str, group: str, resource: str, is_allowed: bool, tmp_path: Path
) -> None:
    async def decide() -> bool:
        server = ApiServer(tmp_path / "data")
        await server.start(socket_path=tmp_path / "socket")
        try:
            async with Transport(access.unix(tmp_path / "socket"), user_agent="test") as transport:
                await grants.create(transport)
                # A second run on the same cluster finds the objects.
                await grants.create(transport)
            attributes = Attributes(verb, group, resource, namespace="train")
            return Authorizer(server.store).decide(BARRIER, attributes).is_allowed
        finally:
            await server.stop()

    assert asyncio.run(decide()) is is_allowed
