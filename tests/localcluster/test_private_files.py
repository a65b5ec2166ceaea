"""Files of a data directory that another user owns or can write."""

import asyncio
import grp
import os
import pwd
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
import unprivileged

from windlass import file_owners
from windlass.localcluster import private_files
from windlass.localcluster.cluster import CannotStartError, ClusterOptions, LocalCluster
from windlass.localcluster.private_files import ForeignFileError
from windlass.localcluster.server import ApiServer

ANOTHER = "choose another directory with XDG_STATE_HOME or --data-dir"
TOKEN = "a token that another user knows" * 2

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a token, a key, locks and a socket."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    for name in ("token", "server.key", "daemon.lock", "lock"):
        (data / name).touch(mode=0o600)
    (data / "token").write_text(TOKEN)
    with socket.socket(socket.AF_UNIX) as bound:
        before = Path.cwd()
        os.chdir(data)
        try:
            bound.bind("api.socket")
        finally:
            os.chdir(before)
    (data / "api.socket").chmod(0o600)
    return data


def test_own_files_are_accepted(data: Path, tmp_path: Path) -> None:
    (data / "volumes").symlink_to(tmp_path)
    (data / "dangling").symlink_to(tmp_path / "missing")
    private_files.check(data)
    private_files.check(tmp_path / "missing")
    assert (data / "token").read_text() == TOKEN


NAMES = ["", "token", "server.key", "daemon.lock", "lock", "api.socket"]


@pytest.mark.parametrize("mode", [0o720, 0o702])
@pytest.mark.parametrize("name", NAMES)
def test_file_that_others_can_write_is_rejected(data: Path, name: str, mode: int) -> None:
    data.chmod(0o755)
    (data / name).chmod(mode)
    with pytest.raises(ForeignFileError) as error:
        private_files.check(data)
    message = str(error.value)
    assert f"{data / name} belongs to user " in message
    assert f" and has mode {mode:04o}. Other users can write it. Run `chmod go-w {data / name}`" in message


@needs_root
@pytest.mark.parametrize("name", NAMES)
def test_file_of_another_user_is_rejected(data: Path, name: str) -> None:
    os.chown(data / name, unprivileged.NOBODY, -1)
    with pytest.raises(ForeignFileError) as error:
        private_files.check(data)
    message = str(error.value)
    assert f"{data / name} belongs to user nobody and has mode 0{'7' if not name else '6'}00. " in message
    assert f"{ANOTHER}." in message


@needs_root
def test_link_of_another_user_is_rejected(data: Path, tmp_path: Path) -> None:
    (tmp_path / "ours").touch(mode=0o600)
    (data / "cluster.db").symlink_to(tmp_path / "ours")
    os.chown(data / "cluster.db", unprivileged.NOBODY, -1, follow_symlinks=False)
    with pytest.raises(ForeignFileError, match="belongs to user nobody"):
        private_files.check(data)


@needs_root
def test_link_to_a_folder_of_another_user_is_rejected(data: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(data)
    os.chown(data, unprivileged.NOBODY, -1)
    with pytest.raises(ForeignFileError, match="link belongs to user nobody"):
        private_files.check(link)


@needs_root
@pytest.mark.parametrize("is_sticky", [False, True])
def test_parent_folder_of_another_user_is_rejected(data: Path, is_sticky: bool) -> None:
    """The other user could move our folder away and create another one."""
    data.parent.chmod(0o1777 if is_sticky else 0o755)
    private_files.check(data)
    os.chown(data.parent, unprivileged.NOBODY, -1)
    with pytest.raises(ForeignFileError, match=f"{data.parent} belongs to user nobody"):
        private_files.check(data)
    with pytest.raises(ForeignFileError, match=f"{data.parent} belongs to user nobody"):
        private_files.check(data.parent / "missing" / "data")


def test_parent_folder_that_others_can_write_is_rejected_unless_it_is_sticky(data: Path) -> None:
    data.parent.chmod(0o777)
    with pytest.raises(ForeignFileError, match=rf"has mode 0777\..* Run `chmod go-w {data.parent}`"):
        private_files.check(data)
    data.parent.chmod(0o1777)
    private_files.check(data)


def test_parent_folder_of_a_private_group_is_accepted(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With umask 002, folders of a user are writable for the group of that user."""
    data.parent.chmod(0o770)
    user = pwd.getpwuid(os.geteuid()).pw_name
    monkeypatch.setattr(file_owners, "_ROOT_GROUP", -1)
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name=user, gr_mem=[user]))
    private_files.check(data)
    # Users whose primary group it is are not listed in the group.
    for shared in (SimpleNamespace(gr_name="users", gr_mem=[]), SimpleNamespace(gr_name=user, gr_mem=["b"])):
        monkeypatch.setattr(grp, "getgrgid", lambda _, group=shared: group)
        with pytest.raises(ForeignFileError, match="Other users can replace the files in it"):
            private_files.check(data)


@needs_root
def test_home_folder_of_the_caller_of_sudo_is_accepted(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(data.parent, unprivileged.NOBODY, -1)
    with pytest.raises(ForeignFileError, match="belongs to user nobody"):
        private_files.check(data)
    monkeypatch.setenv("SUDO_UID", str(unprivileged.NOBODY))
    private_files.check(data)


@needs_root
def test_link_in_a_folder_of_another_user_is_rejected(data: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "link").symlink_to(data)
    (tmp_path / "our link").symlink_to(foreign / "link")
    private_files.check(tmp_path / "our link")
    os.chown(foreign, unprivileged.NOBODY, -1)
    with pytest.raises(ForeignFileError, match="foreign belongs to user nobody"):
        private_files.check(tmp_path / "our link")


def test_modes_of_our_files_are_corrected_in_a_private_folder(data: Path) -> None:
    """An earlier release created files with the umask."""
    for name, mode in (("daemon.json", 0o664), ("token", 0o644), ("server.key", 0o666)):
        (data / name).touch()
        (data / name).chmod(mode)
    private_files.check(data)
    modes = {name: (data / name).stat().st_mode & 0o777 for name in ("daemon.json", "token", "server.key")}
    assert modes == {"daemon.json": 0o644, "token": 0o600, "server.key": 0o600}


def test_all_files_that_others_can_write_or_secrets_they_can_read_are_named(data: Path) -> None:
    data.chmod(0o755)
    for name, mode in (("token", 0o640), ("server.key", 0o604), ("lock", 0o664)):
        (data / name).chmod(mode)
    with pytest.raises(ForeignFileError) as error:
        private_files.check(data)
    found = sorted(str(error.value).splitlines())
    assert len(found) == 3
    assert found[0].startswith(f"{data / 'lock'} belongs to user ")
    assert found[0].endswith(f"Run `chmod go-w {data / 'lock'}` or {ANOTHER}.")
    assert f"has mode 0604. Other users can read it. Run `rm {data / 'server.key'}`" in found[1]
    assert f"has mode 0640. Other users can read it. Run `rm {data / 'token'}`" in found[2]


def test_created_parent_folders_are_private_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private_files.make_folder(tmp_path / "state" / "windlass" / "local")
    finally:
        os.umask(before)
    for path in ("state", "state/windlass", "state/windlass/local"):
        assert (tmp_path / path).stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        private_files.make_folder(tmp_path / "file")


def test_cluster_and_server_reject_a_prepared_token(data: Path) -> None:
    """They neither use nor replace it."""
    data.chmod(0o755)
    (data / "token").chmod(0o666)
    with pytest.raises(CannotStartError, match="has mode 0666"):
        asyncio.run(LocalCluster(data, ClusterOptions()).start())
    with pytest.raises(ForeignFileError, match="has mode 0666"):
        ApiServer(data)
    assert (data / "token").read_text() == TOKEN
    assert not (data / "cluster.db").exists()


def test_written_file_is_private_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private_files.write(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_bytes() == b"content"
    private_files.check(tmp_path)
