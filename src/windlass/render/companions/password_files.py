"""The password files in the Secret of a companion, in the format of its server. `passwords` computes the hashes."""

from collections.abc import Mapping

import msgspec

from windlass.model.companions import Companion
from windlass.render.companions import passwords

ALL_USERS = ""
"""Key of the password of all users without their own password."""

ByUser = Mapping[str, str]
"""Passwords or their hashes, by user."""

JUPYTER_FILE = "jupyter_server_config.json"
NOTEBOOK_FILE = "jupyter_notebook_config.json"
"""The file that Jupyter servers before 2021 read."""
HUB_FILE = "passwords.json"


def hash_password(companion: Companion, password: str) -> str:
    """Hash a password for the server, with a new salt. This is slow on purpose."""
    compute = passwords.hub_hash if companion is Companion.HUB else passwords.jupyter_hash
    return compute(password)


def verify(companion: Companion, hashed: str, password: str) -> bool:
    check = passwords.verify_hub if companion is Companion.HUB else passwords.verify_jupyter
    return check(hashed, password)


def files(companion: Companion, hashes: ByUser) -> dict[str, str]:
    """Return the contents of the password files, by file name."""
    if companion is Companion.HUB:
        return {HUB_FILE: msgspec.json.encode(dict(hashes), order="sorted").decode()}
    hashed = hashes.get(ALL_USERS, "")
    config = {
        JUPYTER_FILE: {"PasswordIdentityProvider": {"hashed_password": hashed}},
        NOTEBOOK_FILE: {"NotebookApp": {"password": hashed}},
    }
    return {name: msgspec.json.encode(content).decode() for name, content in config.items()}


def hashes_in(companion: Companion, data: dict[str, str]) -> dict[str, str]:
    """Return the hashes in the data of a Secret, by user. Empty if the data is not in the format of `files`."""
    try:
        if companion is Companion.HUB:
            hashes = msgspec.json.decode(_decoded(data, HUB_FILE), type=dict[str, str])
        else:
            config = msgspec.json.decode(_decoded(data, JUPYTER_FILE), type=_JupyterFile)
            hashes = {ALL_USERS: config.provider.hashed_password}
    except msgspec.MsgspecError:
        return {}
    return {user: hashed for user, hashed in hashes.items() if hashed}


class _Provider(msgspec.Struct, frozen=True):
    hashed_password: str = ""


class _JupyterFile(msgspec.Struct, frozen=True):
    provider: _Provider = msgspec.field(default=_Provider(), name="PasswordIdentityProvider")


def _decoded(data: dict[str, str], file: str) -> bytes:
    """Return the content of a file, which is base64-encoded in the data of a Secret."""
    return msgspec.convert(str(data.get(file, "")), bytes)
