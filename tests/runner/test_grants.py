"""The permissions that `windlass run` and `windlass local up` grant to pods."""

import asyncio
from collections.abc import Awaitable, Callable
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
    assert (
        is_permitted(tmp_path, grants.create, Attributes(verb, group, resource, namespace="train"))
        is is_allowed
    )


@pytest.mark.parametrize(
    ("verb", "group", "is_allowed"),
    [
        *((verb, group, True) for verb in ("get", "list", "watch") for group in names.GROUPS),
        ("patch", names.CONTROLLER_GROUP, False),
        ("get", "", False),
    ],
)
def test_service_accounts_may_read_frameworks_of_a_run(
    verb: str, group: str, is_allowed: bool, tmp_path: Path
) -> None:
    attributes = Attributes(verb, group, names.PLURAL, namespace="train")
    assert is_permitted(tmp_path, grants.let_pods_read_frameworks, attributes) is is_allowed


def is_permitted(
    folder: Path, create: Callable[[Transport], Awaitable[None]], attributes: Attributes
) -> bool:
    """Return whether a service account has the permission on a new cluster with these grants."""

    async def decide() -> bool:
        server = ApiServer(folder / "data")
        await server.start(socket_path=folder / "socket")
        try:
            async with Transport(access.unix(folder / "socket"), user_agent="test") as transport:
                await create(transport)
                # A second run on the same cluster finds the objects.
                await create(transport)
            return Authorizer(server.store).decide(BARRIER, attributes).is_allowed
        finally:
            await server.stop()

    return asyncio.run(decide())
