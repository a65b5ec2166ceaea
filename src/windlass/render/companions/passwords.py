"""Hash and verify passwords for JupyterLab and JupyterHub. Passwords are first normalised like the input of
the login forms.

This file is also shipped to the hub, so it does not import other modules of Windlass.
"""

import base64
import hashlib
import hmac
import re
import secrets

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_GENERATED_BYTES = 15
_SALT_BYTES = 16

# The parameters that Jupyter itself uses.
ARGON2_COST = {"time_cost": 10, "memory_cost": 10240, "parallelism": 8, "hash_len": 32}
_ARGON2 = "argon2:"

# 16 MiB of memory per login.
_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1, "dklen": 32}
_SCRYPT_NAME = "scrypt"


def normalized(password: str) -> str:
    """Return the password as tornado, which both servers use, reads it from a form."""
    return _CONTROL.sub(" ", password).strip()


def problem_of(password: str) -> str:
    """Return why a password cannot be used to log in. Empty if it can."""
    if not normalized(password):
        return "it is empty, or consists of spaces"
    return "it contains a line break" if re.search(r"[\r\n]", normalized(password)) else ""


def generate() -> str:
    return secrets.token_urlsafe(_GENERATED_BYTES)


def jupyter_hash(password: str) -> str:
    """Return a hash in the format of Jupyter: `argon2:$argon2id$…`."""
    from argon2 import low_level

    encoded = low_level.hash_secret(
        normalized(password).encode(),
        salt=secrets.token_bytes(_SALT_BYTES),
        type=low_level.Type.ID,
        **ARGON2_COST,
    )
    return f"{_ARGON2}{encoded.decode()}"


def verify_jupyter(hashed: str, password: str) -> bool:
    import argon2

    if not hashed.startswith(_ARGON2):
        return False
    try:
        return argon2.PasswordHasher().verify(hashed.removeprefix(_ARGON2), normalized(password))
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHash):
        return False


def hub_hash(password: str) -> str:
    """Return a hash as `scrypt:SALT:HASH`, which the standard library can verify."""
    salt = secrets.token_bytes(_SALT_BYTES)
    parts = (salt, hashlib.scrypt(normalized(password).encode(), salt=salt, **_SCRYPT))
    return ":".join((_SCRYPT_NAME, *(base64.b64encode(part).decode() for part in parts)))


def verify_hub(hashed: str, password: str) -> bool:
    name, _, rest = hashed.partition(":")
    try:
        salt, expected = (base64.b64decode(part, validate=True) for part in rest.split(":"))
    except ValueError:
        return False
    found = hashlib.scrypt(normalized(password).encode(), salt=salt, **_SCRYPT)
    return name == _SCRYPT_NAME and hmac.compare_digest(found, expected)
