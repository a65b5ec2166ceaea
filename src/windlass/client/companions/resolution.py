"""What a job file leaves open of its companions: their passwords, of which it says where they are, if anywhere.

A password is read here, or made up, and leaves as a hash. What a cluster has of an earlier submission goes on: `kept`.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from windlass.client import paths
from windlass.client.errors import FaultyJobError
from windlass.model.base import Json
from windlass.model.companions import Companion, Hub, Jupyter, TensorBoard, password_source
from windlass.model.job import Job
from windlass.render.companions import password_files, passwords
from windlass.render.companions.resolved import ALL_USERS, Settled

LONGEST_PASSWORD_BYTES = 4096
"""A file that has more is no password."""


def given(job: Job, folder: Path, environ: Mapping[str, str]) -> dict[Companion, str]:
    """The passwords that somebody has chosen. `folder` is that of the job file. Raises FaultyJobError."""
    found: dict[Companion, str] = {}
    for companion, wanted in job.companions.items():
        source, field = password_source(wanted), f"{companion}.passwordFrom"
        if source.env:
            found[companion] = _checked(_variable(source.env, environ, field), field)
        elif source.file:
            found[companion] = _checked(_line(folder, source.file, field), field)
    return found


def settled(job: Job, known: Mapping[Companion, str], *, is_one_machine: bool) -> Settled:
    """With the passwords that somebody has chosen, and others made up."""
    shown: dict[Companion, dict[str, str]] = {}
    hashes: dict[Companion, dict[str, str]] = {}
    for companion, wanted in job.companions.items():
        if isinstance(wanted, TensorBoard) or password_source(wanted).secret:
            continue
        chosen = {ALL_USERS: known[companion]} if companion in known else {}
        made_up = {user: passwords.generated() for user in _without_one(wanted, chosen)}
        if made_up:
            shown[companion] = made_up
        texts = {**chosen, **made_up}
        hashes[companion] = {user: password_files.hashed(companion, text) for user, text in texts.items()}
    return Settled(hashes=hashes, shown=shown, is_one_machine=is_one_machine)


def shown_once(what: str, password: str) -> str:
    """How somebody is told of one that was made up. Nothing else says what it is."""
    return f"{what} is {password}: it is shown this once, and kept as a hash"


def _without_one(wanted: Jupyter | Hub, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """For whom one is made up. Whoever may stop the servers of others has a password that these do not know."""
    if isinstance(wanted, Jupyter):
        return () if chosen else (ALL_USERS,)
    others = () if chosen else wanted.users or (ALL_USERS,)
    # A hub knows no capitals.
    return tuple(dict.fromkeys(user.lower() for user in (*others, *wanted.admins)))


def kept(companion: Companion, now: Settled, known: Mapping[Companion, str], secret: Json) -> Settled:
    """The same with what the Secret of an earlier submission has: whoever knows that password comes in as before.

    One that somebody has chosen since takes its place; who has one of their own beside one for all keeps it.
    """
    before = password_files.hashes_in(companion, secret.get("data") or {})
    text, planned = known.get(companion), now.hashes[companion]
    is_for_all = ALL_USERS in before and ALL_USERS in planned
    staying = {
        user: hashed
        for user, hashed in before.items()
        if (is_for_all or user in planned)
        and (text is None or user != ALL_USERS or password_files.fits(companion, hashed, text))
    }
    shown = {user: made for user, made in now.shown.get(companion, {}).items() if user not in staying}
    return msgspec.structs.replace(
        now,
        hashes={**now.hashes, companion: {**planned, **staying}},
        shown={**now.shown, companion: shown},
    )


def _variable(name: str, environ: Mapping[str, str], field: str) -> str:
    if name not in environ:
        raise FaultyJobError(
            f"{field}: the variable {name} is not set here: set it, or leave passwordFrom out: then a password is made "
            "up and shown once"
        )
    text = environ[name]
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FaultyJobError(f"{field}: the variable {name} is not UTF-8, in which people type") from error
    return text


def _line(folder: Path, file: str, field: str) -> str:
    path = folder / paths.expanded(file)
    try:
        with path.open("rb") as stream:
            # No more than is taken, so that an endless file ends.
            data = stream.read(LONGEST_PASSWORD_BYTES + 1)
    except OSError as error:
        remedy = "write the password into it, or leave passwordFrom out: then one is made up and shown once"
        raise FaultyJobError(
            f"{field}: {path} cannot be read: {error.strerror or error}: {remedy}"
        ) from error
    if len(data) > LONGEST_PASSWORD_BYTES:
        raise FaultyJobError(
            f"{field}: {path} has more than {LONGEST_PASSWORD_BYTES} bytes: expected a password, and nothing else"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FaultyJobError(f"{field}: {path} is not UTF-8, in which people type: write it so") from error
    return text.removesuffix("\n").removesuffix("\r")


def _checked(text: str, field: str) -> str:
    """Without quoting it: what is printed may be seen by others."""
    if fault := passwords.why_not(text):
        raise FaultyJobError(f"{field}: the password cannot be used: {fault}. Choose another one")
    return text
