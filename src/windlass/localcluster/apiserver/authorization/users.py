"""The user of a request, and the names of users and groups that Kubernetes defines."""

from collections.abc import Mapping

import msgspec

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
_ACCOUNTS = "system:serviceaccounts"
_ACCOUNT_PREFIX = "system:serviceaccount:"


class User(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = {}

    @property
    def is_administrator(self) -> bool:
        """Whether the user may do everything, regardless of roles."""
        return MASTERS in self.groups


ADMINISTRATOR = User("windlass", (MASTERS, AUTHENTICATED))
"""The user of the kubeconfig and of the unix socket."""


def account_name(namespace: str, name: str) -> str:
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    return (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}")


def account_of(user_name: str) -> tuple[str, str] | None:
    """Return the namespace and name of a service account from its user name; None for another user."""
    namespace, separator, name = user_name.removeprefix(_ACCOUNT_PREFIX).partition(":")
    is_account = user_name.startswith(_ACCOUNT_PREFIX) and bool(namespace and separator and name)
    return (namespace, name) if is_account and ":" not in name else None
