"""Refreshes the token of a user of an OpenID Connect provider.

Certificates are always verified. The refresh token is not sent to the target of a redirect.
"""

import base64
import ssl
from datetime import UTC, datetime
from typing import Any

import aiohttp
import msgspec
import yarl
from aiohttp import helpers

from windlass.kubeapi.errors import AccessError


class Client(msgspec.Struct, frozen=True):
    id: str
    secret: str
    issuer: str
    authority: str
    """PEM; empty for the certificate authorities of the operating system."""


class Refreshed(msgspec.Struct, frozen=True):
    id_token: str
    refresh_token: str = ""


class _Discovery(msgspec.Struct, frozen=True):
    token_endpoint: str


class _Claims(msgspec.Struct, frozen=True):
    exp: float | None = None


async def refresh(client: Client, refresh_token: str) -> Refreshed:
    context = ssl.create_default_context(cadata=client.authority or None)
    password = base64.b64encode(f"{client.id}:{client.secret}".encode()).decode()
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context), raise_for_status=True
        ) as session:
            url = f"{client.issuer.rstrip('/')}/.well-known/openid-configuration"
            async with session.get(url, **_proxy(url)) as answer:
                endpoint = msgspec.json.decode(await answer.read(), type=_Discovery).token_endpoint
            async with session.post(
                endpoint,
                data={"grant_type": "refresh_token", "refresh_token": refresh_token},
                headers={"Accept": "application/json", "Authorization": f"Basic {password}"},
                allow_redirects=False,
                **_proxy(endpoint),
            ) as answer:
                return msgspec.json.decode(await answer.read(), type=Refreshed)
    except (OSError, ValueError, aiohttp.ClientError) as error:
        raise AccessError(
            f"cannot refresh the token at {client.issuer}: {str(error) or 'timed out'}"
        ) from error


def _proxy(url: str) -> dict[str, Any]:
    """Return the arguments for the proxy of the environment. The option `trust_env` would also read ~/.netrc."""
    try:
        proxy, auth = helpers.get_env_proxy_for_url(yarl.URL(url))
    except LookupError:
        return {}
    return {"proxy": proxy, "proxy_headers": {"Proxy-Authorization": auth.encode()} if auth else {}}


def expiry_of(token: str) -> datetime:
    """Return when a JWT expires; the latest possible time if it does not expire."""
    parts = token.split(".")
    if len(parts) != 3:
        raise AccessError(
            "the id-token of auth-provider oidc is not a JWT: expected three parts separated by dots"
        )
    claims = msgspec.json.decode(
        base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims
    )
    return datetime.max.replace(tzinfo=UTC) if claims.exp is None else datetime.fromtimestamp(claims.exp, UTC)
