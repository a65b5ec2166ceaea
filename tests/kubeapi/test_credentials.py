"""Authentication of client and server, and renewal of credentials."""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from tests.kubeapi import kubeconfigs
from tests.kubeapi.certificates import Authority, Pair, server_context
from tests.kubeapi.kubeconfigs import Plugin
from tests.kubeapi.scripted import Answer, Script, refusal, run, serving, text

from windlass.kubeapi import access, errors, requests
from windlass.kubeapi.access import Access
from windlass.kubeapi.resources import PODS
from windlass.kubeapi.transport import Transport

GET = requests.get(PODS, "t", "a")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def here(authority: Authority) -> Pair:
    return authority.sign("server", "127.0.0.1", "cluster.example")


@pytest.fixture
def context(tmp_path: Path, authority: Authority, here: Pair) -> ssl.SSLContext:
    return server_context(tmp_path, here, clients=authority)


@pytest.fixture
def trusted(authority: Authority) -> dict[str, Any]:
    return {"certificate-authority-data": kubeconfigs.data(authority.certificate)}


@pytest.mark.parametrize(
    ("trusts", "cluster", "is_accepted"),
    [
        ("it", {}, True),
        ("nobody", {}, False),
        ("another", {}, False),
        ("nobody", {"insecure-skip-tls-verify": True}, True),
        ("nobody", {"insecure-skip-tls-verify": False}, False),
        ("it", {"tls-server-name": "cluster.example"}, True),
        ("it", {"tls-server-name": "another.example"}, False),
    ],
)
def test_trusted_servers(
    tmp_path: Path,
    context: ssl.SSLContext,
    trusted: dict[str, Any],
    trusts: str,
    cluster: dict[str, Any],
    is_accepted: bool,
) -> None:
    another = {"certificate-authority-data": kubeconfigs.data(Authority().certificate)}
    known = {"it": trusted, "nobody": {}, "another": another}[trusts]

    async def send() -> None:
        script = Script(text("{}"))
        async with serving(script, context):
            path = kubeconfigs.write(
                tmp_path / "config", server=script.url, cluster={**known, **cluster}, user={"token": "secret"}
            )
            async with Transport(await access.load(path)) as transport:
                if is_accepted:
                    assert await transport.send(GET) == b"{}"
                else:
                    with pytest.raises(errors.NotSentError, match="certificate is not trusted"):
                        await transport.send(GET)
        assert bool(script.received) == is_accepted

    run(send())


async def who(request: web.BaseRequest) -> web.StreamResponse:
    """Answers with the name in the certificate of the client."""
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return web.Response(text=" ".join(names) or "nobody")


def by_data(folder: Path, pair: Pair) -> dict[str, Any]:
    return {
        "client-certificate-data": kubeconfigs.data(pair.certificate),
        "client-key-data": kubeconfigs.data(pair.key),
    }


def by_files(folder: Path, pair: Pair) -> dict[str, Any]:
    (folder / "me.crt").write_bytes(pair.certificate)
    (folder / "me.key").write_bytes(pair.key)
    return {"client-certificate": "me.crt", "client-key": str(folder / "me.key")}


def by_plugin(folder: Path, pair: Pair) -> dict[str, Any]:
    plugin = Plugin(folder)
    plugin.answers(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode())
    return plugin.user


@pytest.mark.parametrize(
    ("kind", "name"), [(by_data, "me"), (by_files, "me"), (by_plugin, "me"), (lambda *_: {}, "nobody")]
)
def test_client_certificate_is_sent(
    tmp_path: Path,
    authority: Authority,
    context: ssl.SSLContext,
    trusted: dict[str, Any],
    kind: Callable[[Path, Pair], dict[str, Any]],
    name: str,
) -> None:
    async def send() -> None:
        script = Script(who)
        async with serving(script, context):
            user = kind(tmp_path, authority.sign("me"))
            path = kubeconfigs.write(tmp_path / "config", server=script.url, cluster=trusted, user=user)
            async with Transport(await access.load(path)) as transport:
                assert await transport.send(GET) == name.encode()

    run(send())


def test_replaced_certificate_is_sent_after_a_rejection(
    tmp_path: Path, authority: Authority, context: ssl.SSLContext, trusted: dict[str, Any]
) -> None:
    async def send() -> None:
        script = Script(who, refusal(401, "Unauthorized"), who)
        async with serving(script, context):
            user = by_files(tmp_path, authority.sign("old"))
            path = kubeconfigs.write(tmp_path / "config", server=script.url, cluster=trusted, user=user)
            async with Transport(await access.load(path)) as transport:
                assert await transport.send(GET) == b"old"
                by_files(tmp_path, authority.sign("new"))
                assert await transport.send(GET) == b"new"

    run(send())


UNAUTHORIZED = refusal(401, "Unauthorized")
GOOD = text("{}")


@pytest.mark.parametrize(
    ("answers", "change", "tokens", "is_accepted"),
    [
        ([UNAUTHORIZED, GOOD], "new", ["old", "new"], True),
        # Once more, and not again and again.
        ([UNAUTHORIZED, UNAUTHORIZED], "new", ["old", "new"], False),
        # There is no use in asking the same again.
        ([UNAUTHORIZED], "old", ["old"], False),
    ],
)
@pytest.mark.parametrize("kind", ["token", "tokenFile", "plugin"])
def test_rejected_token_is_loaded_again(
    tmp_path: Path,
    context: ssl.SSLContext,
    trusted: dict[str, Any],
    kind: str,
    answers: list[Answer],
    change: str,
    tokens: list[str],
    is_accepted: bool,
) -> None:
    plugin = Plugin(tmp_path)

    def set_token(token: str, server: str) -> str:
        (tmp_path / "token").write_text(token)
        plugin.answers(token=token)
        user = {"token": {"token": token}, "tokenFile": {"tokenFile": "token"}, "plugin": plugin.user}[kind]
        return kubeconfigs.write(tmp_path / "config", server=server, cluster=trusted, user=user)

    async def send() -> None:
        script = Script(*answers)
        async with (
            serving(script, context),
            Transport(await access.load(set_token("old", script.url))) as transport,
        ):
            set_token(change, script.url)
            if is_accepted:
                await transport.send(GET)
            else:
                with pytest.raises(errors.UnauthorizedError):
                    await transport.send(GET)
        assert script.tokens() == [f"Bearer {token}" for token in tokens]

    run(send())


def test_plugin_that_fails_later_reports_the_reason(
    tmp_path: Path, context: ssl.SSLContext, trusted: dict[str, Any]
) -> None:
    async def send() -> None:
        script = Script(UNAUTHORIZED)
        async with serving(script, context):
            plugin = Plugin(tmp_path)
            plugin.answers("old")
            path = kubeconfigs.write(
                tmp_path / "config", server=script.url, cluster=trusted, user=plugin.user
            )
            async with Transport(await access.load(path)) as transport:
                plugin.path.write_text("#!/bin/sh\necho log in first >&2\nexit 1\n")
                with pytest.raises(errors.UnauthorizedError, match="log in first"):
                    await transport.send(GET)

    run(send())


def test_many_rejections_share_one_renewal(
    tmp_path: Path, context: ssl.SSLContext, trusted: dict[str, Any]
) -> None:
    async def send() -> None:
        clock = Clock()
        script = Script(*[UNAUTHORIZED] * 1000)
        async with serving(script, context):
            plugin = Plugin(tmp_path)
            plugin.answers("old")
            path = kubeconfigs.write(
                tmp_path / "config", server=script.url, cluster=trusted, user=plugin.user
            )
            async with Transport(await access.load(path, clock=clock)) as transport:
                for runs in (2, 2, 3):
                    answers = await asyncio.gather(
                        *(transport.send(GET) for _ in range(20)), return_exceptions=True
                    )
                    assert {type(answer) for answer in answers} == {errors.UnauthorizedError}
                    assert plugin.runs() == runs
                    clock.now += access.MIN_RENEWAL_INTERVAL_SEC / 2

    run(send())


async def token_after(way: Access, clock: Clock, seconds: float) -> str:
    """Return what is sent after a running renewal has ended."""
    clock.now += seconds
    way.identity()
    if way._renewal is not None:
        await way._renewal
    return dict(way.identity().headers)["Authorization"].removeprefix("Bearer ")


def test_token_file_is_read_every_minute(tmp_path: Path) -> None:
    async def read() -> None:
        clock = Clock()
        (tmp_path / "token").write_text("1")
        path = kubeconfigs.write(tmp_path / "config", user={"tokenFile": "token"})
        way = await access.load(path, clock=clock)
        (tmp_path / "token").write_text("2")
        assert await token_after(way, clock, 59) == "1"
        assert await token_after(way, clock, 1) == "2"
        assert way.identity().ssl_context is not None
        before = way.identity().ssl_context
        (tmp_path / "token").write_text("3")
        assert await token_after(way, clock, 60) == "3"
        # The connections can be used on.
        assert way.identity().ssl_context is before

    run(read())


def test_service_account_is_read_every_minute(tmp_path: Path) -> None:
    async def read() -> None:
        clock = Clock()
        environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        (tmp_path / "ca.crt").write_bytes(Authority().certificate)
        (tmp_path / "token").write_text("1")
        way = await access.load(environment=environment, service_account=tmp_path, clock=clock)
        before = way.identity().ssl_context
        (tmp_path / "token").write_text("2")
        (tmp_path / "ca.crt").write_bytes(Authority().certificate)
        assert await token_after(way, clock, 59) == "1"
        assert await token_after(way, clock, 1) == "2"
        assert way.identity().ssl_context is not before

    run(read())


def test_temporarily_missing_file_is_tolerated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def read() -> None:
        clock = Clock()
        token = tmp_path / "token"
        token.write_text("1")
        path = kubeconfigs.write(tmp_path / "config", user={"tokenFile": "token"})
        way = await access.load(path, clock=clock)
        token.unlink()
        clock.now += 60
        assert dict(way.identity().headers)["Authorization"] == "Bearer 1"
        assert way._renewal is not None
        with pytest.raises(errors.AccessError):
            await way._renewal
        token.write_text("2")
        assert await token_after(way, clock, access.MIN_RENEWAL_INTERVAL_SEC) == "2"

    run(read())
    assert "cannot renew the credentials" in caplog.text


@pytest.mark.parametrize(
    ("expires_in", "again_after"),
    # The second is about to expire, or the clocks differ: then not more often than every ten seconds.
    [(1000.0, 800.0), (3.0, 10.0), (-100.0, 10.0)],
)
def test_plugin_is_run_again_before_its_token_expires(
    tmp_path: Path, expires_in: float, again_after: float
) -> None:
    async def read() -> None:
        clock = Clock()
        plugin = Plugin(tmp_path)
        expiry = (datetime.now(UTC) + timedelta(seconds=expires_in)).strftime("%Y-%m-%dT%H:%M:%SZ")
        plugin.answers("1", expirationTimestamp=expiry)
        way = await access.load(kubeconfigs.write(tmp_path / "config", user=plugin.user), clock=clock)
        plugin.answers("2")
        # The test itself takes a while by the clock on the wall, on which the plugin's answer lies.
        assert await token_after(way, clock, again_after * 0.8) == "1"
        assert await token_after(way, clock, again_after * 0.2) == "2"
        # This one does not expire.
        assert await token_after(way, clock, 1_000_000) == "2"
        assert plugin.runs() == 2

    run(read())


def jwt(expires_in: float, name: str) -> str:
    """With characters that are not in the plain alphabet of base64."""
    claims = {"exp": datetime.now(UTC).timestamp() + expires_in, "name": name, "x": "???>>>~~~ÿÿÿ"}
    body = base64.urlsafe_b64encode(json.dumps(claims, ensure_ascii=False).encode()).decode().rstrip("=")
    assert "_" in body or "-" in body
    return f"e30.{body}.c2ln"


def test_oidc_token_is_used_until_it_expires(tmp_path: Path) -> None:
    token = jwt(1000, "me")
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}}
    way = run(access.load(kubeconfigs.write(tmp_path / "config", user=user)))
    assert dict(way.identity().headers) == {"Authorization": f"Bearer {token}"}


def test_unreachable_oidc_provider_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        issuer = f"https://127.0.0.1:{closed.getsockname()[1]}"
    config = {
        "client-id": "windlass",
        "id-token": jwt(-10, "me"),
        "idp-issuer-url": issuer,
        "refresh-token": "first",
    }
    user = {"auth-provider": {"name": "oidc", "config": config}}
    path = kubeconfigs.write(tmp_path / "config", user=user)
    with pytest.raises(errors.AccessError, match=f"cannot refresh the token at {issuer}: .*Connect"):
        run(access.load(path))


@pytest.mark.parametrize("is_trusted", [True, False])
def test_expired_oidc_token_is_refreshed_with_a_trusted_provider(
    tmp_path: Path, authority: Authority, context: ssl.SSLContext, is_trusted: bool
) -> None:
    fresh = jwt(1000, "me")

    async def refresh() -> None:
        script = Script()
        async with serving(script, context):
            endpoint = text(json.dumps({"token_endpoint": f"{script.url}/token"}))
            tokens = text(json.dumps({"id_token": fresh, "refresh_token": "next"}))
            script._answers += [endpoint, tokens]
            known = {"idp-certificate-authority-data": kubeconfigs.data(authority.certificate)}
            config = {
                "client-id": "windlass",
                "id-token": jwt(-10, "me"),
                "idp-issuer-url": script.url,
                "refresh-token": "first",
                **(known if is_trusted else {}),
            }
            user = {"auth-provider": {"name": "oidc", "config": config}}
            path = kubeconfigs.write(tmp_path / "config", user=user)
            if not is_trusted:
                with pytest.raises(errors.AccessError, match="certificate"):
                    await access.load(path)
                assert script.received == []
                return
            way = await access.load(path)
        assert dict(way.identity().headers) == {"Authorization": f"Bearer {fresh}"}
        discovery, exchange = script.received
        assert "Authorization" not in discovery.headers
        assert exchange.headers["Authorization"] == f"Basic {base64.b64encode(b'windlass:').decode()}"
        assert b"refresh_token=first" in exchange.body
        # The first cannot be used again: what was given for it must be found by the next who asks.
        kept = yaml.safe_load(Path(path).read_text())["users"][0]["user"]["auth-provider"]["config"]
        assert (kept["id-token"], kept["refresh-token"]) == (fresh, "next")

    run(refresh())


def test_refresh_token_is_not_sent_to_the_target_of_a_redirect(
    tmp_path: Path, authority: Authority, context: ssl.SSLContext
) -> None:
    async def refresh() -> None:
        script = Script()
        async with serving(script, context):
            endpoint = text(json.dumps({"token_endpoint": f"{script.url}/token"}))
            script._answers += [endpoint, text("", 307, Location=f"{script.url}/stolen"), text("{}")]
            config = {
                "client-id": "windlass",
                "id-token": jwt(-10, "me"),
                "idp-issuer-url": script.url,
                "refresh-token": "secret",
                "idp-certificate-authority-data": kubeconfigs.data(authority.certificate),
            }
            user = {"auth-provider": {"name": "oidc", "config": config}}
            with pytest.raises(errors.AccessError):
                await access.load(kubeconfigs.write(tmp_path / "config", user=user))
        assert [each.path for each in script.received] == ["/.well-known/openid-configuration", "/token"]

    run(refresh())
