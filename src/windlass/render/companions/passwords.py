"""Passwords, as the servers that ask for them take them: normalised as they do it, and hashed with a salt."""

import base64
import hashlib
import hmac
import re
import secrets

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_GENERATED_BYTES = 15
_SALT_BYTES = 16

# What Jupyter itself asks of argon2.
ARGON2_COST = {"time_cost": 10, "memory_cost": 10240, "parallelism": 8, "hash_len": 32}
_ARGON2 = "argon2:"

# 16 MiB, which a hub has to spare for everybody who logs in.
_SCRYPT = {"n": 1 << 14, "r": 8, "p": 1, "dklen": 32}
_SCRYPT_NAME = "scrypt"


def normal(password: str) -> str:
    """What is left of it when somebody has typed it: both servers read forms with tornado, which does this to them."""
    return _CONTROL.sub(" ", password).strip()


def why_not(password: str) -> str:
    """Why nobody could log in with it; empty where somebody can."""
    if not normal(password):
        return "nothing is left of it when somebody has typed it"
    return (
        "there is a line break in it, which nobody can type" if re.search(r"[\r\n]", normal(password)) else ""
    )


def generated() -> str:
    return secrets.token_urlsafe(_GENERATED_BYTES)


def for_jupyter(password: str) -> str:
    """As Jupyter writes it: `argon2:$argon2id$…`."""
    from argon2 import low_level

    encoded = low_level.hash_secret(
        normal(password).encode(),
        salt=secrets.token_bytes(_SALT_BYTES),
        type=low_level.Type.ID,
        **ARGON2_COST,
    )
    return f"{_ARGON2}{encoded.decode()}"


def fits_jupyter(hashed: str, password: str) -> bool:
    import argon2

    if not hashed.startswith(_ARGON2):
        return False
    try:
        return argon2.PasswordHasher().verify(hashed.removeprefix(_ARGON2), normal(password))
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHash):
        return False


def for_hub(password: str) -> str:
    """`scrypt:SALT:HASH`: the hub needs no more than Python to read it."""
    salt = secrets.token_bytes(_SALT_BYTES)
    parts = (salt, hashlib.scrypt(normal(password).encode(), salt=salt, **_SCRYPT))
    return ":".join((_SCRYPT_NAME, *(base64.b64encode(part).decode() for part in parts)))


def fits_hub(hashed: str, password: str) -> bool:
    """As the hub's own configuration does it."""
    name, _, rest = hashed.partition(":")
    try:
        salt, expected = (base64.b64decode(part, validate=True) for part in rest.split(":"))
    except ValueError:
        return False
    found = hashlib.scrypt(normal(password).encode(), salt=salt, **_SCRYPT)
    return name == _SCRYPT_NAME and hmac.compare_digest(found, expected)
