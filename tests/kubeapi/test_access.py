"""Sources of the cluster configuration, its contents and its errors."""

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kubeapi import kubeconfigs
from tests.kubeapi.certificates import Authority
from tests.kubeapi.kubeconfigs import SERVER, Plugin
from tests.kubeapi.scripted import run

from windlass.kubeapi import access
from windlass.kubeapi.access import Access
from windlass.kubeapi.errors import AccessError


def load(home: Path, kubeconfig: str = "", context: str = "", server: str = "", **environment: str) -> Access:
    given = {"HOME": str(home), **environment}
    account = home / "account"
    return run(access.load(kubeconfig, context, server, environment=given, service_account=account))


def authorization(way: Access) -> str:
    return dict(way.identity().headers).get("Authorization", "")


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a kubeconfig in its place, two more files, and a service account."""
    (tmp_path / ".kube").mkdir()
    kubeconfigs.write(tmp_path / ".kube" / "config", server="https://home")
    kubeconfigs.write(tmp_path / "one", name="one", server="https://one", context={"namespace": "team"})
    kubeconfigs.write(tmp_path / "two", name="two", server="https://two")
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("of the pod\n")
    (account / "ca.crt").write_bytes(Authority().certificate)
    (account / "namespace").write_text("training\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "environment", "server", "namespace"),
    [
        ({"kubeconfig": "one"}, {"KUBECONFIG": "two", **POD}, "https://one", "team"),
        ({}, {"KUBECONFIG": "two", **POD}, "https://two", "default"),
        ({}, {"KUBECONFIG": "one:two"}, "https://one", "team"),
        ({}, {"KUBECONFIG": "missing:two:one"}, "https://two", "default"),
        ({"context": "two"}, {"KUBECONFIG": "one:two"}, "https://two", "default"),
        ({}, POD, "https://10.0.0.1:443", "training"),
        ({}, {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, "https://[fd00::1]:443", "training"),
        ({"context": "main"}, POD, "https://home", "default"),
        ({}, {}, "https://home", "default"),
        ({"server": "https://other/"}, {}, "https://other", "default"),
        ({"server": "https://other", "kubeconfig": "one"}, {}, "https://other", "team"),
        ({"server": "10.1.1.1:8080"}, {}, "http://10.1.1.1:8080", "default"),
    ],
)
def test_source_of_the_configuration(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, str],
    environment: dict[str, str],
    server: str,
    namespace: str,
) -> None:
    monkeypatch.chdir(home)
    way = load(home, **arguments, **environment)
    assert (way.server, way.namespace) == (server, namespace)


@pytest.mark.parametrize(
    ("server", "environment"),
    [("10.1.1.1:8080", {}), ("http://10.1.1.1", {}), ("http://10.1.1.1", POD), ("https://10.1.1.1", {})],
)
def test_address_alone_is_sufficient(tmp_path: Path, server: str, environment: dict[str, str]) -> None:
    way = load(tmp_path, server=server, **environment)
    assert way.server.endswith(server)
    assert way.identity().headers == ()
    assert (way.identity().ssl_context is not None) == server.startswith("https")


def test_credentials_are_not_sent_without_tls(tmp_path: Path) -> None:
    path = kubeconfigs.write(tmp_path / "config", user={"token": "secret"})
    assert authorization(load(tmp_path, path)) == "Bearer secret"
    assert load(tmp_path, path, server="http://other").identity().headers == ()
    plain = kubeconfigs.write(tmp_path / "plain", server="http://plain", user={"token": "secret"})
    assert load(tmp_path, plain).identity().headers == ()


def test_pod_uses_its_service_account(home: Path) -> None:
    way = load(home, **POD)
    assert authorization(way) == "Bearer of the pod"
    assert not way.may_use_environment_proxy


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        ({}, []),
        ({"token": "abc"}, [("Authorization", "Bearer abc")]),
        ({"tokenFile": "token"}, [("Authorization", "Bearer in a file")]),
        ({"tokenFile": "token", "token": "stale"}, [("Authorization", "Bearer in a file")]),
        (
            {"username": "me", "password": "pw"},
            [("Authorization", f"Basic {base64.b64encode(b'me:pw').decode()}")],
        ),
        (
            {
                "token": "abc",
                "as": "admin",
                "as-uid": "7",
                "as-groups": ["a", "b"],
                "as-user-extra": {"scopes": ["x", "y"]},
            },
            [
                ("Authorization", "Bearer abc"),
                ("Impersonate-User", "admin"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Extra-scopes", "x"),
                ("Impersonate-Extra-scopes", "y"),
            ],
        ),
    ],
)
def test_credentials_become_headers(
    tmp_path: Path, user: dict[str, Any], headers: list[tuple[str, str]]
) -> None:
    # Relative to the kubeconfig, with the line feed that editors leave.
    (tmp_path / "token").write_text("in a file\n")
    path = kubeconfigs.write(tmp_path / "config", user=user)
    assert list(load(tmp_path, path).identity().headers) == headers


def test_context_without_a_user_is_accepted(tmp_path: Path) -> None:
    path = kubeconfigs.write(tmp_path / "config", context={"user": ""})
    assert load(tmp_path, path).identity().headers == ()


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    """Paths are relative to the file that contains them."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
        kubeconfigs.write(tmp_path / name / "config", name=name, user={"tokenFile": "token"})
    joined = f"{tmp_path}/one/config:{tmp_path}/two/config"
    assert authorization(load(tmp_path, joined, context="one")) == "Bearer one"
    assert authorization(load(tmp_path, joined, context="two")) == "Bearer two"


def test_credential_plugin_is_run(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers("from the plugin")
    path = kubeconfigs.write(tmp_path / "config", user=plugin.user)
    assert authorization(load(tmp_path, path)) == "Bearer from the plugin"
    assert plugin.runs() == 1


def test_plugin_gets_arguments_and_variables_and_is_relative_to_the_file(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "plugin"
    script.parent.mkdir()
    script.write_text(
        '#!/bin/sh\necho "{\\"apiVersion\\":\\"$1\\",\\"kind\\":\\"ExecCredential\\",'
        '\\"status\\":{\\"token\\":\\"$2-$WHO\\"}}"\n'
    )
    script.chmod(0o700)
    version = "client.authentication.k8s.io/v1beta1"
    exec_ = {
        "apiVersion": version,
        "command": "bin/plugin",
        "args": [version, 7],
        "env": [{"name": "WHO", "value": "me"}],
    }
    path = kubeconfigs.write(tmp_path / "config", user={"exec": exec_})
    assert authorization(load(tmp_path, path)) == "Bearer 7-me"


def everybody(config: Path) -> None:
    config.chmod(0o646)


def nobody(config: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.chown(config, 65534, 65534)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (everybody, "can be changed by other users (mode 0646)"),
        (nobody, "belongs to another user (UID 65534)"),
    ],
)
def test_plugin_in_a_file_of_another_user_is_shown_and_not_run(
    tmp_path: Path, change: Callable[[Path], None], reason: str
) -> None:
    exec_ = {
        "apiVersion": PLUGIN_VERSION,
        "command": "sh",
        "args": ["-c", f"touch {tmp_path}/stolen\x1b]0;title\x07"],
        "env": [{"name": "LD_PRELOAD", "value": "./evil.so"}],
    }
    path = kubeconfigs.write(tmp_path / "config", user={"exec": exec_})
    change(tmp_path / "config")
    with pytest.raises(AccessError) as raised:
        load(tmp_path, path)
    command = f"LD_PRELOAD=… sh -c 'touch {tmp_path}/stolen\\x1b]0;title\\x07'"
    assert reason in str(raised.value)
    assert str(raised.value).endswith(f"It would run: {command}")
    assert not (tmp_path / "stolen").exists()


PLUGIN_VERSION = "client.authentication.k8s.io/v1"
FAILING = "echo 'not logged in: run login first' >&2; exit 3"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"context": {"cluster": "other"}}, ["context main", "other"]),
        ({"context": {"user": "nobody"}}, ["context main", "'nobody'"]),
        ({"current": ""}, ["no current context", "Choose one of: main"]),
        ({"current": "gone"}, ["no such context: 'gone'", "Choose one of: main"]),
        ({"cluster": {"certificate-authority": "missing.crt"}}, ["missing.crt"]),
        ({"cluster": {"certificate-authority-data": "%%%"}}, ["certificate-authority-data"]),
        ({"cluster": {"certificate-authority-data": kubeconfigs.data(b"no PEM")}}, ["certificates"]),
        ({"cluster": {"proxy-url": "socks5://here"}}, ["proxy-url", "socks5://here"]),
        ({"user": {"tokenFile": "missing"}}, ["missing"]),
        (
            {
                "user": {
                    "exec": {"apiVersion": PLUGIN_VERSION, "command": "no-such", "installHint": "Get it."}
                }
            },
            ["'no-such'", "No such file", "Get it."],
        ),
        (
            {"user": {"exec": {"apiVersion": PLUGIN_VERSION, "command": "sh", "args": ["-c", FAILING]}}},
            ["'sh'", "not logged in: run login first"],
        ),
        (
            {"user": {"exec": {"apiVersion": PLUGIN_VERSION, "command": "echo", "args": ["hello"]}}},
            ["'echo'", "not an ExecCredential"],
        ),
        ({"user": {"exec": {"command": "echo"}}}, ["apiVersion"]),
        ({"server": "https://[bad"}, ["'https://[bad'"]),
        ({"server": "cluster.example"}, ["'cluster.example'"]),
        ({"user": {"auth-provider": {"name": "oidc", "config": {"id-token": "abc"}}}}, ["oidc", "JWT"]),
    ],
)
def test_invalid_values_are_reported(tmp_path: Path, settings: dict[str, Any], words: list[str]) -> None:
    path = kubeconfigs.write(tmp_path / "config", **settings)
    with pytest.raises(AccessError) as raised:
        load(tmp_path, path)
    for word in (path, *words):
        assert word in str(raised.value)


@pytest.mark.parametrize("content", ["", "- a\n- list\n", "a: [", "just words", "contexts: 7\n", "{}\n"])
def test_invalid_kubeconfig_is_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / "config").write_text(content)
    with pytest.raises(AccessError, match=str(tmp_path / "config")):
        load(tmp_path, str(tmp_path / "config"))


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        ({"kubeconfig": "missing"}, {}, "missing: no such file"),
        ({}, {"KUBECONFIG": "a:b"}, "a:b: no such file"),
        ({}, {"KUBECONFIG": "/dev/null"}, "/dev/null"),
        ({}, {}, "no cluster configured"),
        ({"context": "main"}, POD, "no cluster configured"),
        ({}, POD, "automountServiceAccountToken"),
        ({"server": "https://10.1.1.1"}, POD, "automountServiceAccountToken"),
        ({"server": "ftp://10.1.1.1"}, {}, "ftp://10.1.1.1"),
        ({"server": "http://a:b"}, {}, "http://a:b"),
    ],
)
def test_missing_configuration_is_reported(
    tmp_path: Path, arguments: dict[str, str], environment: dict[str, str], words: str
) -> None:
    with pytest.raises(AccessError, match=words):
        load(tmp_path, **arguments, **environment)


def test_no_temporary_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while it is in use: who is killed cannot clean up, and these are private keys."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    authority = Authority()
    pair = authority.sign("me")
    path = kubeconfigs.write(
        tmp_path / "config",
        cluster={"certificate-authority-data": kubeconfigs.data(authority.certificate)},
        user={
            "client-certificate-data": kubeconfigs.data(pair.certificate),
            "client-key-data": kubeconfigs.data(pair.key),
        },
    )
    way = load(tmp_path, path)
    assert way.server == SERVER
    assert list((tmp_path / "temporary").iterdir()) == []
