"""Password hashes of companions: any characters, a new salt each time, accepted by the verifiers of the servers."""

import base64
import hashlib
import re

import argon2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.render.companions import passwords

ODD = {
    "one letter": "a",
    "quotes": "a\"b'c",
    "YAML": "a: b # c",
    "a template": "{{ 7*7 }}",
    "two lines": "two\nlines",
    "variables": "$(HOME) ${HOME} $$",
    "letters of all kinds": "pässwörd😀",
    "long": "x" * 1000,
    "a backslash": "\\",
    "spaces at both ends": "  a b \t",
    "control characters": "\x00a\x07b\x1f",
    "colons": "argon2:$argon2id$:",
}
ANY = st.text(st.characters(exclude_categories=["Cs"])).filter(passwords.normalized)


def typed(text: str) -> str:
    """Return a form argument as tornado decodes it."""
    return re.sub(r"[\x00-\x08\x0e-\x1f]", " ", text).strip()


def is_taken_by_jupyter(hashed: str, text: str) -> bool:
    """Verify a hash like Jupyter: by the name of the algorithm and the parameters in the hash."""
    algorithm, _, encoded = hashed.partition(":")
    assert algorithm == "argon2"
    try:
        return argon2.PasswordHasher(memory_cost=10240, time_cost=10, parallelism=8).verify(encoded, text)
    except argon2.exceptions.VerifyMismatchError:
        return False


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_hashes_accept_only_the_password(text: str) -> None:
    for_jupyter, for_hub = passwords.jupyter_hash(text), passwords.hub_hash(text)
    assert is_taken_by_jupyter(for_jupyter, typed(text))
    assert not is_taken_by_jupyter(for_jupyter, typed(text) + "x")
    for fits, hashed in ((passwords.verify_jupyter, for_jupyter), (passwords.verify_hub, for_hub)):
        assert fits(hashed, text)
        assert fits(hashed, typed(text))
        assert not fits(hashed, text + "x")
        assert not fits(hashed, "")


@settings(max_examples=8, deadline=None)
@given(ANY)
def test_any_typed_password_fits_its_hash(text: str) -> None:
    assert passwords.normalized(text) == typed(text)
    assert passwords.verify_hub(passwords.hub_hash(text), text)
    assert is_taken_by_jupyter(passwords.jupyter_hash(text), typed(text))


def test_each_hash_has_another_salt() -> None:
    jupyters = {passwords.jupyter_hash("a").split("$")[4] for _ in range(3)}
    hubs = {passwords.hub_hash("a").split(":")[1] for _ in range(3)}
    assert len(jupyters) == len(hubs) == 3


@pytest.mark.usefixtures("production_cost")
def test_jupyter_hash_has_cost_of_jupyter() -> None:
    hashed = passwords.jupyter_hash("a")
    assert hashed.startswith("argon2:$argon2id$v=19$m=10240,t=10,p=8$")
    assert len(base64.b64decode(hashed.rpartition("$")[2] + "=")) == 32
    assert is_taken_by_jupyter(hashed, "a")
    assert not is_taken_by_jupyter(hashed, "b")


def test_hub_hash_needs_16_mib_of_memory() -> None:
    hashed = passwords.hub_hash("a")
    salt, found = (base64.b64decode(part) for part in hashed.split(":")[1:])
    assert found == hashlib.scrypt(b"a", salt=salt, n=1 << 14, r=8, p=1, dklen=32)
    assert passwords.verify_hub(hashed, "a")
    assert not passwords.verify_hub(hashed, "b")


@pytest.mark.parametrize(
    "hashed", ["", "scrypt:", "scrypt:a:b:c", "scrypt:!!:!!", "argon2:", "argon2:$x", "sha1:a:b"]
)
def test_invalid_hash_fits_no_password(hashed: str) -> None:
    assert not passwords.verify_jupyter(hashed, "a")
    assert not passwords.verify_hub(hashed, "a")


def test_generated_password_is_long_and_normalised() -> None:
    made = {passwords.generate() for _ in range(10)}
    assert len(made) == 10
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{20,}", each) for each in made)
