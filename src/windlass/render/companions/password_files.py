"""What a Secret has of the passwords of a companion: hashes, in files as its server reads them."""

import hashlib
from collections.abc import Mapping

import msgspec

from windlass.model.companions import Companion
from windlass.render.companions.settled import ALL_USERS

OF_JUPYTER = "jupyter_server_config.json"
OF_OLD_NOTEBOOKS = "jupyter_notebook_config.json"
"""Of before 2021."""
OF_HUB = "passwords.json"

_DIGITS = 16


def files(companion: Companion, hashes: Mapping[str, str]) -> dict[str, str]:
    """By their names. The hashes are by user; that of Jupyter is of `ALL_USERS`."""
    if companion is Companion.HUB:
        return {OF_HUB: msgspec.json.encode(dict(hashes), order="sorted").decode()}
    hashed = hashes.get(ALL_USERS, "")
    config = {
        OF_JUPYTER: {"PasswordIdentityProvider": {"hashed_password": hashed}},
        OF_OLD_NOTEBOOKS: {"NotebookApp": {"password": hashed}},
    }
    return {name: msgspec.json.encode(content).decode() for name, content in config.items()}


def digest(companion: Companion, hashes: Mapping[str, str]) -> str:
    """Another one for other hashes: a pod that has it is replaced."""
    of_hub = files(companion, hashes).get(OF_HUB)
    text = hashes.get(ALL_USERS, "") if of_hub is None else of_hub
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
