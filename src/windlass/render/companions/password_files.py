"""The password files in the Secret of a companion, in the format of its server. `passwords` computes the hashes."""

from collections.abc import Mapping

import msgspec

from windlass.model.companions import Companion
from windlass.render.companions import passwords

ALL_USERS = ""
"""Key of the password of all users that have none of their own."""

ByUser = Mapping[str, str]

OF_JUPYTER = "jupyter_server_config.json"
OF_OLD_NOTEBOOKS = "jupyter_notebook_config.json"
"""Name before 2021."""
OF_HUB = "passwords.json"


def hashed(companion: Companion, password: str) -> str:
    """Hash a password for the server, with a new salt. This is slow on purpose."""
    is_hub = companion is Companion.HUB
    return passwords.for_hub(password) if is_hub else passwords.for_jupyter(password)


def fits(companion: Companion, known: str, password: str) -> bool:
    is_hub = companion is Companion.HUB
    return passwords.fits_hub(known, password) if is_hub else passwords.fits_jupyter(known, password)


def files(companion: Companion, hashes: ByUser) -> dict[str, str]:
    """Return the contents of the files by name."""
    if companion is Companion.HUB:
        return {OF_HUB: msgspec.json.encode(dict(hashes), order="sorted").decode()}
    own = hashes.get(ALL_USERS, "")
    config = {
        OF_JUPYTER: {"PasswordIdentityProvider": {"hashed_password": own}},
        OF_OLD_NOTEBOOKS: {"NotebookApp": {"password": own}},
    }
    return {name: msgspec.json.encode(content).decode() for name, content in config.items()}


def hashes_in(companion: Companion, found: dict[str, str]) -> dict[str, str]:
    """Return the hashes in the data of a Secret. Empty if `files` did not write it."""
    try:
        if companion is Companion.HUB:
            hashes = msgspec.json.decode(_decoded(found, OF_HUB), type=dict[str, str])
        else:
            config = msgspec.json.decode(_decoded(found, OF_JUPYTER), type=_JupyterFile)
            hashes = {ALL_USERS: config.provider.hashed_password}
    except msgspec.MsgspecError:
        return {}
    return {user: each for user, each in hashes.items() if each}


class _Provider(msgspec.Struct, frozen=True):
    hashed_password: str = ""


class _JupyterFile(msgspec.Struct, frozen=True):
    provider: _Provider = msgspec.field(default=_Provider(), name="PasswordIdentityProvider")


def _decoded(found: dict[str, str], file: str) -> bytes:
    return msgspec.convert(str(found.get(file, "")), bytes)
