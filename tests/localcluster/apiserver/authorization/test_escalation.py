"""Privilege escalation by roles and bindings is rejected, also for unusual kinds and very large roles."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from windlass.k8s.api_errors import ApiError
from windlass.localcluster.apiserver import request_info
from windlass.localcluster.apiserver.authorization import escalation
from windlass.localcluster.apiserver.authorization.authorizer import (
    GROUP,
    MAX_CACHED_NAMESPACES,
    Authorizer,
)
from windlass.localcluster.apiserver.authorization.rules import Attributes
from windlass.localcluster.apiserver.authorization.users import User
from windlass.localcluster.server import ApiServer

USER = User("operator")
BINDING = {
    "metadata": {"name": "all"},
    "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "operator"}],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    tmp_path.chmod(0o700)
    server = ApiServer(tmp_path)
    yield server
    server.store.close()


def test_binding_of_a_kind_named_like_a_role_is_checked_as_a_binding(server: ApiServer) -> None:
    bindings = server.registry.built_in(f"clusterrolebindings.{GROUP}")
    kind = msgspec.structs.replace(bindings, version="v2", kind="ClusterRole")
    info = request_info.parse(f"/apis/{GROUP}/v2/clusterrolebindings")
    assert info is not None
    check = escalation.check_for(Authorizer(server.store), USER, kind, info)
    assert check is not None
    with pytest.raises(ApiError, match="is attempting to grant RBAC permissions not currently held"):
        check(BINDING, None)


def write_role(server: ApiServer, count: int) -> str:
    """Return the message with which a role with `count` ** 4 permissions is rejected."""
    values = [f"v{number}" for number in range(count)]
    fields = ("verbs", "apiGroups", "resources", "resourceNames")
    role = {"metadata": {"name": "many"}, "rules": [dict.fromkeys(fields, values)]}
    kind, info = (
        server.registry.built_in(f"clusterroles.{GROUP}"),
        request_info.parse(f"/apis/{GROUP}/v1/clusterroles"),
    )
    assert info is not None
    check = escalation.check_for(Authorizer(server.store), USER, kind, info)
    assert check is not None
    with pytest.raises(ApiError) as raised:
        check(role, None)
    assert raised.value.code == 403
    return raised.value.message


def test_role_with_too_many_permissions_is_rejected_with_a_short_message(server: ApiServer) -> None:
    assert write_role(server, 50).endswith(
        "there are too many rules to compare with those of the user: use fewer rules, or several roles"
    )


def test_message_names_the_first_missing_permissions(server: ApiServer) -> None:
    lines = write_role(server, 6).splitlines()
    assert len(lines) == 102
    assert lines[-1] == f"and {6**3 - 100} more"


def test_cache_of_bindings_is_bounded(server: ApiServer) -> None:
    server.store.commit()
    authorizer = Authorizer(server.store)
    for number in range(MAX_CACHED_NAMESPACES + 10):
        authorizer.decide(USER, Attributes("get", resource="pods", namespace=f"n{number}"))
    authorizer.decide(USER, Attributes("get", resource="pods", namespace="x" * 100_000))
    assert 0 < len(authorizer._bindings) <= MAX_CACHED_NAMESPACES
    assert max(map(len, authorizer._bindings)) < 100
