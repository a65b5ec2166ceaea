"""Change the password of a companion: update the hash in its Secret, and replace its pod."""

import asyncio
import base64

import msgspec

from windlass.client import lifecycle, lookup
from windlass.client.companions.status import CompanionView
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, ObjectNotFoundError, RejectedError
from windlass.kubeapi import requests
from windlass.kubeapi.errors import ConflictError, ForbiddenError, NotFoundError, ResponseError
from windlass.kubeapi.resources import CONFIG_MAPS, DEPLOYMENTS, SECRETS
from windlass.model.base import Json
from windlass.render.companions import hub, password_files, passwords, servers
from windlass.render.companions.password_files import ALL_USERS
from windlass.wire import diagnostics


async def renew(connection: Connection, view: CompanionView, user: str = ALL_USERS) -> str:
    """Set and return a new password. For a hub, it is the password of `user`. Raises ClientError and ApiError."""
    user = user.lower()  # a hub converts names to lower case
    secret = await _find_secret(connection, view)
    hashes = password_files.hashes_in(view.companion, secret.get("data") or {})
    if not hashes:
        raise ClientError(
            f"the Secret {secret['metadata']['name']} contains no passwords in the format of Windlass"
        )
    if user not in hashes:
        users = await _list_users(connection, view) if ALL_USERS in hashes else list(hashes)
        if users and user not in users:
            raise ObjectNotFoundError(
                f"{view} has no user {diagnostics.quoted(user)}, only {', '.join(users)}"
            )
    password = passwords.generate()
    # Hashing is slow on purpose.
    hashed = await asyncio.to_thread(password_files.hash_password, view.companion, password)
    hashes = {**hashes, user: hashed}
    await _update_secret(connection, view, secret, hashes)
    try:
        await _replace_pod(connection, view, hashes)
    except ResponseError as error:
        raise RejectedError(
            f"the new password is {password}, but the pod {view.pod} still has the old one: "
            f"{connection.where} refused to replace it: {error.failure.message}"
        ) from error
    return password


async def _find_secret(connection: Connection, view: CompanionView) -> Json:
    """Return the Secret that the companion's pod reads."""
    listed = await lookup.list_objects(connection, SECRETS, connection.namespace, view.label_selector)
    for each in listed:
        found: Json = msgspec.json.decode(each)
        if found["metadata"]["name"] in view.secrets:
            return found
    raise ObjectNotFoundError(
        f"the password of {view} is in your own Secret (passwordFrom in its job file): write the hash of a new "
        "password to that Secret"
    )


async def _list_users(connection: Connection, view: CompanionView) -> list[str]:
    """Return the users of a hub; none if its job file names none, or if its ConfigMap cannot be read."""
    try:
        answer = await connection.send(requests.get(CONFIG_MAPS, connection.namespace, view.name))
    except (ForbiddenError, NotFoundError):
        return []
    return hub.users_in(msgspec.json.decode(answer).get("data") or {})


async def _update_secret(
    connection: Connection, view: CompanionView, secret: Json, hashes: dict[str, str]
) -> None:
    metadata = {name: secret["metadata"][name] for name in ("uid", "resourceVersion")}
    texts = password_files.files(view.companion, hashes)
    data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    try:
        await lifecycle.merge_patch(
            connection, SECRETS, secret["metadata"]["name"], {"metadata": metadata, "data": data}
        )
    except ConflictError as error:
        raise RejectedError(
            "another client has just changed the passwords. Run the command again."
        ) from error


async def _replace_pod(connection: Connection, view: CompanionView, hashes: dict[str, str]) -> None:
    """Change an annotation of the pod template, so that the Deployment replaces the pod."""
    annotations = servers.password_annotation(view.companion, hashes)
    change = {
        "metadata": {"uid": view.uid},
        "spec": {"template": {"metadata": {"annotations": annotations}}},
    }
    await lifecycle.merge_patch(connection, DEPLOYMENTS, view.name, change)
