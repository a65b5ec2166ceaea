"""Kubeconfigs that another user wrote, or could have written."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kubeapi import kubeconfigs
from tests.kubeapi.kubeconfigs import Plugin
from tests.kubeapi.scripted import run

from windlass.kubeapi import access, kubeconfig
from windlass.kubeapi.errors import AccessError

NOBODY = 65534


@pytest.fixture
def foreign() -> Callable[[Path], None]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    return lambda path: os.chown(path, NOBODY, NOBODY)


def error_of(paths: str, context: str = "") -> str:
    with pytest.raises(AccessError) as raised:
        run(access.load(paths, context))
    return str(raised.value)


@pytest.mark.parametrize("name", ["gcp", "azure"])
def test_removed_auth_provider_is_rejected_and_not_run(tmp_path: Path, name: str) -> None:
    config = {"cmd-path": "/bin/sh", "cmd-args": f"-c 'touch {tmp_path}/stolen'"}
    path = kubeconfigs.write(
        tmp_path / "config", user={"auth-provider": {"name": name, "config": config}, "token": "t"}
    )
    assert f"auth-provider '{name}' is not supported" in error_of(path)
    assert not (tmp_path / "stolen").exists()


def test_file_replaced_after_it_was_read_is_not_trusted(
    tmp_path: Path, foreign: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers("t")
    config = tmp_path / "config"
    path = kubeconfigs.write(config, user=plugin.user)
    foreign(config)
    choose = kubeconfig._chosen_context

    def replace_file_first(*arguments: Any) -> str:
        config.unlink()
        config.symlink_to("/etc/passwd")
        return choose(*arguments)

    monkeypatch.setattr(kubeconfig, "_chosen_context", replace_file_first)
    assert "belongs to another user" in error_of(path)
    assert plugin.runs() == 0


@pytest.mark.parametrize("is_group", [True, False])
@pytest.mark.parametrize("is_folder", [True, False])
def test_plugin_is_not_run_if_others_can_change_the_file_or_its_folder(
    tmp_path: Path, foreign: Callable[[Path], None], is_folder: bool, is_group: bool
) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers("t")
    config = tmp_path / "folder" / "config"
    config.parent.mkdir()
    path = kubeconfigs.write(config, user=plugin.user)
    changed = config.parent if is_folder else config
    os.chown(changed, os.geteuid(), NOBODY)
    changed.chmod(0o775 if is_group else 0o757)
    assert ("can be replaced by other users" if is_folder else "can be changed by other users") in error_of(
        path
    )
    assert plugin.runs() == 0


def test_plugin_is_run_from_a_sticky_folder_and_with_a_private_group(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers("t")
    config = tmp_path / "folder" / "config"
    config.parent.mkdir()
    config.parent.chmod(0o1777)
    path = kubeconfigs.write(config, user=plugin.user)
    if os.geteuid() == 0:  # the group root is private here
        config.chmod(0o660)
    run(access.load(path))
    assert plugin.runs() == 1


@pytest.mark.parametrize("field", ["tokenFile", "client-key", "client-certificate"])
def test_own_file_named_by_a_foreign_kubeconfig_is_not_sent(
    tmp_path: Path, foreign: Callable[[Path], None], field: str
) -> None:
    (tmp_path / "secret").write_text("mine")
    path = kubeconfigs.write(tmp_path / "config", user={field: "secret"})
    foreign(tmp_path / "config")
    assert f"not sending the {field} {tmp_path}/secret" in error_of(path)


def test_file_of_the_same_user_as_the_foreign_kubeconfig_is_sent(
    tmp_path: Path, foreign: Callable[[Path], None]
) -> None:
    (tmp_path / "token").write_text("shared")
    path = kubeconfigs.write(tmp_path / "config", user={"tokenFile": "token"})
    foreign(tmp_path / "config")
    foreign(tmp_path / "token")
    assert dict(run(access.load(path)).identity().headers) == {"Authorization": "Bearer shared"}


def test_own_credentials_are_not_sent_to_the_server_of_a_foreign_file(
    tmp_path: Path, foreign: Callable[[Path], None]
) -> None:
    own = kubeconfigs.write(tmp_path / "own", name="me", user={"token": "mine"})
    other = kubeconfigs.write(tmp_path / "other", context={"user": "me"})
    foreign(tmp_path / "other")
    assert f"not sending the credentials in {own}" in error_of(f"{other}:{own}")
    assert run(access.load(f"{other}:{own}", "me")).identity().headers == (("Authorization", "Bearer mine"),)


def test_control_characters_of_a_context_are_escaped(tmp_path: Path) -> None:
    config = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such"}
    message = error_of(kubeconfigs.write(tmp_path / "config", name="c\x1b]x\u202e", user={"exec": config}))
    assert "(context c\\x1b]x\\u202e)" in message
    assert message.isprintable()


def test_aliases_are_not_expanded_without_limit(tmp_path: Path) -> None:
    path = tmp_path / "config"
    levels = (f"l{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 9)}]" for at in range(1, 6))
    path.write_text("\n".join(("l0: &l0 [x, x, x, x, x, x, x, x, x]", *levels, "contexts: []\n")))
    assert f"{path}:6: more than 100000 values, with aliases expanded" in error_of(str(path))
