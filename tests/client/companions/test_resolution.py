"""Passwords of companions: their sources, invalid ones, and reuse from an earlier submission."""

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.client.companions.resolution import (
    MAX_PASSWORD_BYTES,
    chosen_passwords,
    resolve,
    with_existing_passwords,
)
from windlass.client.errors import InvalidJobError
from windlass.model.base import Json
from windlass.model.companions import Companion, Hub, Jupyter, PasswordFrom, TensorBoard
from windlass.model.job import Job, Role
from windlass.render.companions import password_files, passwords
from windlass.render.companions.password_files import ALL_USERS
from windlass.render.companions.servers import ResolvedCompanions

JUPYTER, HUB = Companion.JUPYTER, Companion.HUB


def job(**companions: Any) -> Job:
    return Job(name="digits", roles={"worker": Role()}, **companions)


def job_with_password_from(env: str = "", file: str = "", secret: str = "") -> Job:
    return job(jupyter=Jupyter(password_from=PasswordFrom(env=env, file=file, secret=secret)))


def secret_of(companion: Companion, hashes: dict[str, str]) -> Json:
    """Return the Secret as the API server stores it."""
    files = password_files.files(companion, hashes)
    return {"data": {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}}


def resolved_in(folder: Path, wanted: Job, password: str = "") -> ResolvedCompanions:
    environ = {"PASSWORD": password} if password else {}
    return resolve(wanted, chosen_passwords(wanted, folder, environ), is_embedded=True)


# Sources

ODD = " ü € ' \" $x `y` \\ \x01 \u202e %s #!"

WRITTEN: dict[str, bytes] = {
    "a line": b"open sesame\n",
    "a line of Windows": b"open sesame\r\n",
    "no line break": b"open sesame",
    "surrounding spaces": b"  open sesame\t\n",
}


@pytest.mark.parametrize("case", WRITTEN)
def test_password_is_read_from_a_file(case: str, tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(WRITTEN[case])
    found = resolved_in(tmp_path, job_with_password_from(file="password"))
    assert passwords.verify_jupyter(found.hashes[JUPYTER][ALL_USERS], "open sesame")
    assert not found.generated


def test_password_may_contain_any_character(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(ODD)
    for found in (
        resolved_in(tmp_path, job_with_password_from(file="password")),
        resolved_in(tmp_path, job_with_password_from(env="PASSWORD"), ODD),
    ):
        assert passwords.verify_jupyter(found.hashes[JUPYTER][ALL_USERS], ODD)
        assert not passwords.verify_jupyter(found.hashes[JUPYTER][ALL_USERS], f"{ODD}x")


def test_password_in_a_secret_is_not_read(tmp_path: Path) -> None:
    assert resolved_in(tmp_path, job_with_password_from("", "", "mine")) == ResolvedCompanions(
        is_embedded=True
    )


def test_job_without_companions_has_no_passwords(tmp_path: Path) -> None:
    assert resolved_in(tmp_path, job(tensorboard=TensorBoard())) == ResolvedCompanions(is_embedded=True)


def test_missing_password_is_generated(tmp_path: Path) -> None:
    found = resolved_in(tmp_path, job(jupyter=Jupyter()))
    assert passwords.verify_jupyter(found.hashes[JUPYTER][ALL_USERS], found.generated[JUPYTER][ALL_USERS])
    again = resolved_in(tmp_path, job(jupyter=Jupyter()))
    assert again.generated != found.generated


def test_hub_has_one_password_per_user(tmp_path: Path) -> None:
    found = resolved_in(tmp_path, job(hub=Hub(users=("ana", "ben"))))
    assert set(found.hashes[HUB]) == {"ana", "ben"}
    for user, hashed in found.hashes[HUB].items():
        assert passwords.verify_hub(hashed, found.generated[HUB][user])
    assert found.generated[HUB]["ana"] != found.generated[HUB]["ben"]


def test_hub_user_names_are_lower_case(tmp_path: Path) -> None:
    found = resolved_in(tmp_path, job(hub=Hub(users=("Ana", "BEN"), admins=("ana",))))
    assert set(found.hashes[HUB]) == set(found.generated[HUB]) == {"ana", "ben"}


def test_hub_without_users_has_one_password(tmp_path: Path) -> None:
    found = resolved_in(tmp_path, job(hub=Hub(admins=("ana",))))
    assert passwords.verify_hub(found.hashes[HUB][ALL_USERS], found.generated[HUB][ALL_USERS])


def test_admin_has_a_separate_password(tmp_path: Path) -> None:
    wanted = job(hub=Hub(admins=("ana",), password_from=PasswordFrom(env="PASSWORD")))
    found = resolved_in(tmp_path, wanted, "open sesame")
    assert set(found.hashes[HUB]) == {ALL_USERS, "ana"}
    assert passwords.verify_hub(found.hashes[HUB]["ana"], found.generated[HUB]["ana"])
    assert not passwords.verify_hub(found.hashes[HUB]["ana"], "open sesame")
    again = with_existing_passwords(
        HUB,
        resolved_in(tmp_path, wanted, "another"),
        {HUB: "another"},
        secret_of(HUB, dict(found.hashes[HUB])),
    )
    assert again.hashes[HUB]["ana"] == found.hashes[HUB]["ana"]
    assert passwords.verify_hub(again.hashes[HUB][ALL_USERS], "another")
    assert not again.generated[HUB]


def test_chosen_hub_password_is_for_all_users(tmp_path: Path) -> None:
    wanted = job(hub=Hub(users=("ana", "ben"), password_from=PasswordFrom(env="PASSWORD")))
    found = resolved_in(tmp_path, wanted, "open sesame")
    assert set(found.hashes[HUB]) == {ALL_USERS}
    assert passwords.verify_hub(found.hashes[HUB][ALL_USERS], "open sesame")
    assert not found.generated


# Rejections


def absent(_: Path) -> None:
    return


def folder(path: Path) -> None:
    path.mkdir()


def containing(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (absent, r"cannot read .*password: No such file.*generated"),
    "a folder": (folder, r"cannot read .*password: Is a directory"),
    "not UTF-8": (containing(b"caf\xe9"), r"password is not valid UTF-8"),
    "empty": (containing(b""), r"it is empty, or consists of spaces"),
    "a line break": (containing(b"\n"), r"it is empty, or consists of spaces"),
    "nothing but controls": (containing(b" \x01\x1f\t"), r"it is empty, or consists of spaces"),
    "two lines": (containing(b"one\ntwo\n"), r"it contains a line break"),
    "large": (containing(b"x" * (MAX_PASSWORD_BYTES + 1)), r"has more than 4096 bytes"),
}


@pytest.mark.parametrize("case", FILES)
def test_invalid_password_file_is_rejected(case: str, tmp_path: Path) -> None:
    make, message = FILES[case]
    make(tmp_path / "password")
    with pytest.raises(InvalidJobError, match=rf"^jupyter\.passwordFrom: .*{message}") as raised:
        resolved_in(tmp_path, job_with_password_from(file="password"))
    assert "\n" not in str(raised.value)


def test_unknown_user_in_the_path_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match=r"cannot read .*~no-such-user/password: No such file"):
        resolved_in(tmp_path, job_with_password_from(file="~no-such-user/password"))


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("", "the variable PASSWORD is not set"),
        (" ", "it is empty"),
        (os.fsdecode(b"caf\xe9"), "the variable PASSWORD is not valid UTF-8"),
    ],
)
def test_invalid_password_variable_is_rejected(password: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match=rf"^jupyter\.passwordFrom: .*{message}"):
        resolved_in(tmp_path, job_with_password_from(env="PASSWORD"), password)


# Reuse


def test_earlier_generated_password_is_reused() -> None:
    before, now = (resolve(job(jupyter=Jupyter()), {}, is_embedded=False) for _ in range(2))
    found = with_existing_passwords(
        JUPYTER, now, {}, secret_of(JUPYTER, {ALL_USERS: before.hashes[JUPYTER][ALL_USERS]})
    )
    assert found.hashes[JUPYTER][ALL_USERS] == before.hashes[JUPYTER][ALL_USERS]
    assert not found.generated[JUPYTER]


@pytest.mark.parametrize(("chosen", "stays"), [("open sesame", True), ("open barley", False)])
def test_chosen_password_replaces_the_earlier_one(chosen: str, stays: bool) -> None:
    wanted, before = job_with_password_from(env="PASSWORD"), passwords.jupyter_hash("open sesame")
    now = resolve(wanted, {JUPYTER: chosen}, is_embedded=False)
    found = with_existing_passwords(JUPYTER, now, {JUPYTER: chosen}, secret_of(JUPYTER, {ALL_USERS: before}))
    assert found.hashes[JUPYTER][ALL_USERS] == (before if stays else now.hashes[JUPYTER][ALL_USERS])


def test_new_hub_user_gets_a_password_and_others_keep_theirs() -> None:
    first = resolve(job(hub=Hub(users=("ana", "ben"))), {}, is_embedded=False)
    now = resolve(job(hub=Hub(users=("ana", "cem"))), {}, is_embedded=False)
    found = with_existing_passwords(HUB, now, {}, secret_of(HUB, dict(first.hashes[HUB])))
    assert found.hashes[HUB] == {"ana": first.hashes[HUB]["ana"], "cem": now.hashes[HUB]["cem"]}
    assert found.generated[HUB] == {"cem": now.generated[HUB]["cem"]}


def test_user_password_is_kept_beside_one_for_all() -> None:
    known = {HUB: "open sesame"}
    wanted = job(hub=Hub(users=("ana", "ben"), password_from=PasswordFrom(env="PASSWORD")))
    now = resolve(wanted, known, is_embedded=False)
    own = passwords.hub_hash("his own")
    before = {**now.hashes[HUB], "ben": own}
    found = with_existing_passwords(
        HUB, resolve(wanted, known, is_embedded=False), known, secret_of(HUB, before)
    )
    assert found.hashes[HUB] == before


def test_chosen_password_for_all_replaces_generated_ones() -> None:
    first = resolve(job(hub=Hub(users=("ana", "ben"))), {}, is_embedded=False)
    known = {HUB: "open sesame"}
    wanted = job(hub=Hub(users=("ana", "ben"), password_from=PasswordFrom(env="PASSWORD")))
    now = resolve(wanted, known, is_embedded=False)
    assert (
        with_existing_passwords(HUB, now, known, secret_of(HUB, dict(first.hashes[HUB]))).hashes[HUB]
        == now.hashes[HUB]
    )


@pytest.mark.parametrize(
    "data",
    [
        {},
        None,
        {"jupyter_server_config.json": "!"},
        {"jupyter_server_config.json": "W10="},
        {"other": "e30="},
    ],
)
def test_invalid_secret_is_ignored(data: Json | None) -> None:
    now = resolve(job(jupyter=Jupyter()), {}, is_embedded=False)
    assert with_existing_passwords(JUPYTER, now, {}, {"data": data}) == now
