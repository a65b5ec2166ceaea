"""Another password for a companion that runs: its Secret gets the hash, and its pod is replaced."""

import asyncio
import base64

import msgspec

from windlass.client import changing, listing
from windlass.client.companions import CompanionView
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, NotThereError, RefusedError
from windlass.kubeapi.errors import AnsweredError, ConflictError
from windlass.kubeapi.resources import DEPLOYMENTS, SECRETS
from windlass.model.base import Json
from windlass.render.companions import password_files, passwords, servers
from windlass.render.companions.settled import ALL_USERS
from windlass.wire import faults


async def renew(connection: Connection, view: CompanionView, user: str = ALL_USERS) -> str:
    """The new one, which is known to nobody else. Of a hub: that of one user. Raises ClientError and ApiError."""
    secret = await _secret(connection, view)
    hashes = password_files.hashes_in(view.companion, secret.get("data") or {})
    if not hashes:
        raise ClientError(f"the Secret {secret['metadata']['name']} has no passwords as Windlass writes them")
    if user not in hashes and ALL_USERS not in hashes:
        known = ", ".join(hashes)
        raise NotThereError(
            f"{view.companion} of {view.job} has no user {faults.quoted(user)}, it has {known}"
        )
    password = passwords.generated()
    # It takes a while, as it should.
    hashed = await asyncio.to_thread(password_files.hashed, view.companion, password)
    hashes = {**hashes, user: hashed}
    await _write(connection, view, secret, hashes)
    try:
        await _replace_pod(connection, view, hashes)
    except AnsweredError as error:
        raise RefusedError(
            f"the new password is {password}, and it holds as soon as the pod {view.pod} is replaced, which "
            f"{connection.where} does not do: {error.failure.message}"
        ) from error
    return password


async def _secret(connection: Connection, view: CompanionView) -> Json:
    """By its labels, as all that belongs to a companion."""
    listed = await listing.objects(connection, SECRETS, connection.namespace, view.label_selector)
    if not listed:
        raise NotThereError(
            f"the password of {view.companion} of {view.job} is in a Secret of your own, that of passwordFrom in its "
            "job file: write the hash of another one into that"
        )
    found: Json = msgspec.json.decode(listed[0])
    return found


async def _write(connection: Connection, view: CompanionView, secret: Json, hashes: dict[str, str]) -> None:
    metadata = {name: secret["metadata"][name] for name in ("uid", "resourceVersion")}
    texts = password_files.files(view.companion, hashes)
    data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    try:
        await changing.merge(
            connection, SECRETS, secret["metadata"]["name"], {"metadata": metadata, "data": data}
        )
    except ConflictError as error:
        raise RefusedError("somebody else has just changed its passwords. Ask again.") from error


async def _replace_pod(connection: Connection, view: CompanionView, hashes: dict[str, str]) -> None:
    annotations = servers.password_annotation(view.companion, hashes)
    change = {
        "metadata": {"uid": view.uid},
        "spec": {"template": {"metadata": {"annotations": annotations}}},
    }
    await changing.merge(connection, DEPLOYMENTS, view.name, change)
