"""Attacks on the logins of a hub.

The configuration of the hub runs with stand-ins for JupyterHub and its libraries, which are not installed in every
environment.
"""

import asyncio
import runpy
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rendered_companions import by_kind

from windlass.model.companions import Companion, Hub
from windlass.model.job import Job, Role
from windlass.render.companions import hub, passwords
from windlass.render.companions.servers import ResolvedCompanions

ADDRESS = "192.0.2.1"
SHIPPED = ("hub_proxy", "hub_support", "passwords")


class HTTPError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Authenticator:
    log = SimpleNamespace(error=print)

    def normalize_username(self, name: str) -> str:
        return name.lower()


class Section(dict[str, Any]):
    """A section of a traitlets configuration: a dictionary whose keys are attributes."""

    __getattr__ = dict[str, Any].__getitem__
    __setattr__ = dict[str, Any].__setitem__


def module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(contents)
    return made


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the configuration of a hub with the users ana and ben defines."""
    return run_configuration(tmp_path, monkeypatch)


def run_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: str = "") -> dict[str, Any]:
    """Run the configuration of a hub with the users ana and ben, and return the names that it defines."""
    hashes = {user: passwords.hub_hash(f"password of {user}") for user in ("ana", "ben")}
    resolved = ResolvedCompanions(hashes={Companion.HUB: hashes}, is_embedded=True)
    job = Job(name="digits", roles={"worker": Role(tasks=1)}, command="true")
    objects = by_kind(hub.objects(job, Hub(users=("ana", "ben"), config=added), resolved, None))
    for name, text in {**objects["ConfigMap"]["data"], **objects["Secret"]["stringData"]}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("WINDLASS_PASSWORDS", str(tmp_path / "passwords.json"))
    monkeypatch.setenv("WINDLASS_ADDRESS", "127.0.0.1")
    replaced = (
        module("jupyterhub"),
        module("jupyterhub.auth", Authenticator=Authenticator),
        module("jupyterhub.proxy", Proxy=object),
        module("jupyterhub.spawner", SimpleLocalProcessSpawner=object),
        module("tornado"),
        module("tornado.web", HTTPError=HTTPError),
        module("traitlets", default=lambda _: lambda function: function),
    )
    for each in replaced:
        monkeypatch.setitem(sys.modules, each.__name__, each)
    monkeypatch.setattr(sys, "path", list(sys.path))
    settings: dict[str, Section] = defaultdict(Section)
    config = type("Config", (), {"__getattr__": lambda _, name: settings[name]})()
    try:
        return runpy.run_path(str(tmp_path / "jupyterhub_config.py"), {"get_config": lambda: config})
    finally:
        for name in SHIPPED:
            sys.modules.pop(name, None)


class Logins:
    """Logins at a hub, through its proxy or directly at its own port."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self._authenticator = configuration["JobAuthenticator"]()
        self.secret = configuration["hub_proxy"].InProcessProxy.secret

    def stop_clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let no time pass between logins, however slow the machine is."""
        stopped = SimpleNamespace(monotonic=lambda: 0.0)
        monkeypatch.setitem(self._authenticator.authenticate.__func__.__globals__, "time", stopped)

    def status(self, user: str, password: str, **fields: str) -> int:
        """Return 200, 403 for a rejected login, or the status of an error."""
        headers = {"X-Windlass-Proxy": self.secret, **fields}
        handler = SimpleNamespace(request=SimpleNamespace(remote_ip=ADDRESS, headers=headers))
        login = self._authenticator.authenticate(handler, {"username": user, "password": password})
        try:
            return 403 if asyncio.run(login) is None else 200
        except HTTPError as error:
            return error.status


@pytest.fixture
def logins(configuration: dict[str, Any]) -> Logins:
    return Logins(configuration)


PUBLIC_URL = 'c.JupyterHub.public_url = "https://hub.example/"'


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("", None),
        (PUBLIC_URL.replace("https", "http"), None),
        (PUBLIC_URL, {"samesite": "Lax", "secure": True}),
        (
            f'{PUBLIC_URL}\nc.JupyterHub.tornado_settings["xsrf_cookie_kwargs"] = {{"domain": "d"}}',
            {"domain": "d"},
        ),
    ],
    ids=["no URL", "HTTP", "HTTPS", "own options"],
)
def test_xsrf_token_of_the_hub_is_secure_behind_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: str, expected: dict[str, Any] | None
) -> None:
    settings = run_configuration(tmp_path, monkeypatch, added)["c"].JupyterHub.tornado_settings
    assert settings.get("xsrf_cookie_kwargs") == expected


def test_user_logs_in_with_the_password(logins: Logins) -> None:
    assert logins.status("Ana", "password of ana") == 200
    assert logins.status("ana", "password of ben") == 403
    assert logins.status("eve", "password of ana") == 403


@pytest.mark.parametrize("secret", ["", "guessed", "gue\xdfed"])
def test_login_that_bypasses_the_proxy_is_rejected(logins: Logins, secret: str) -> None:
    fields = {"X-Windlass-Proxy": secret}
    assert logins.status("ana", "password of ana", **fields) == 403


def test_long_user_name_is_rejected(logins: Logins) -> None:
    assert logins.status("a" * 256, "a guess") == 400


def test_sixth_failed_login_is_delayed_for_known_and_unknown_users(
    logins: Logins, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins.stop_clock(monkeypatch)
    for user in ("ana", "eve"):
        assert [logins.status(user, "a guess") for _ in range(6)] == [403] * 5 + [429]
