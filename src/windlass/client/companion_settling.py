"""What a job file leaves open of its companions: their passwords, of which it says where they are, if anywhere.

A password is read here, or made up, and leaves as a hash. What a cluster has of an earlier submission goes on: `kept`.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from windlass.client.errors import FaultyJobError
from windlass.model.base import Json
from windlass.model.companions import Companion, Hub, Jupyter, PasswordFrom, TensorBoard
from windlass.model.job import Job
from windlass.render.companions import password_files, passwords
from windlass.render.companions.settled import ALL_USERS, Settled

LONGEST_PASSWORD_BYTES = 4096
"""A file that has more is no password."""
WITH_PASSWORDS = (Companion.JUPYTER, Companion.HUB)


def wanted(job: Job) -> dict[Companion, TensorBoard | Jupyter | Hub]:
    """Those that the job file asks for."""
    asked = {
        Companion.TENSORBOARD: job.tensorboard,
        Companion.JUPYTER: job.jupyter,
        Companion.HUB: job.hub,
    }
    return {companion: found for companion, found in asked.items() if found is not None}


def source_of(job: Job, companion: Companion) -> PasswordFrom:
    """Where the password of this one is. Empty where it is made up, or where there is none."""
    found = wanted(job).get(companion)
    return (found.password_from if isinstance(found, Jupyter | Hub) else None) or PasswordFrom()


def settle(job: Job, folder: Path, *, is_one_machine: bool, environ: Mapping[str, str]) -> Settled:
    """`folder` is that of the job file. Raises FaultyJobError."""
    return settled(job, given(job, folder, environ), is_one_machine=is_one_machine)


def given(job: Job, folder: Path, environ: Mapping[str, str]) -> dict[Companion, str]:
    """The passwords that somebody has chosen. Raises FaultyJobError."""
    found: dict[Companion, str] = {}
    for companion in WITH_PASSWORDS:
        source, field = source_of(job, companion), f"{companion}.passwordFrom"
        if source.env:
            found[companion] = _checked(_variable(source.env, environ, field), field)
        elif source.file:
            found[companion] = _checked(_line(folder / Path(source.file).expanduser(), field), field)
    return found


def settled(job: Job, known: Mapping[Companion, str], *, is_one_machine: bool) -> Settled:
    """With the passwords that somebody has chosen, and others made up."""
    shown: dict[str, dict[str, str]] = {}
    hashes: dict[Companion, dict[str, str]] = {}
    for companion in WITH_PASSWORDS:
        if companion not in wanted(job) or source_of(job, companion).secret:
            continue
        chosen = {ALL_USERS: known[companion]} if companion in known else {}
        made_up = {user: passwords.generated() for user in _without_one(job, companion, chosen)}
        if made_up:
            shown[companion] = made_up
        hashed = passwords.for_hub if companion is Companion.HUB else passwords.for_jupyter
        hashes[companion] = {user: hashed(text) for user, text in {**chosen, **made_up}.items()}
    return Settled(
        jupyter_hash=hashes.get(Companion.JUPYTER, {}).get(ALL_USERS, ""),
        hub_hashes=hashes.get(Companion.HUB, {}),
        shown=shown,
        is_one_machine=is_one_machine,
    )


def _without_one(job: Job, companion: Companion, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """For whom one is made up. Whoever may stop the servers of others has a password that these do not know."""
    if companion is not Companion.HUB or job.hub is None:
        return () if chosen else (ALL_USERS,)
    others = () if chosen else job.hub.users or (ALL_USERS,)
    return tuple(dict.fromkeys((*others, *job.hub.admins)))


def kept(companion: Companion, now: Settled, known: Mapping[Companion, str], secret: Json) -> Settled:
    """The same with what the Secret of an earlier submission has: whoever knows that password comes in as before.

    One that somebody has chosen since takes its place.
    """
    before = hashes_in(companion, secret)
    text, is_hub = known.get(companion), companion is Companion.HUB
    fits = passwords.fits_hub if is_hub else passwords.fits_jupyter
    wanted_now = now.hub_hashes if is_hub else {ALL_USERS: now.jupyter_hash}
    staying = {
        user: before[user]
        for user in wanted_now
        if user in before and (text is None or user != ALL_USERS or fits(before[user], text))
    }
    shown = {user: made for user, made in now.shown.get(companion, {}).items() if user not in staying}
    hashes = {**wanted_now, **staying}
    now = msgspec.structs.replace(now, shown={**now.shown, companion: shown})
    if is_hub:
        return msgspec.structs.replace(now, hub_hashes=hashes)
    return msgspec.structs.replace(now, jupyter_hash=hashes[ALL_USERS])


def hashes_in(companion: Companion, secret: Json) -> dict[str, str]:
    """By user. None where somebody has written something else into it."""
    files = {str(name): str(text) for name, text in (secret.get("data") or {}).items()}
    try:
        if companion is Companion.HUB:
            found = msgspec.json.decode(_decoded(files.get(password_files.OF_HUB, "")), type=dict[str, str])
        else:
            config = _decoded(files.get(password_files.OF_JUPYTER, ""))
            provider = msgspec.json.decode(config, type=_JupyterFile).provider
            found = {ALL_USERS: provider.hashed_password}
    except msgspec.MsgspecError:
        return {}
    return {user: each for user, each in found.items() if each}


class _Provider(msgspec.Struct, frozen=True):
    hashed_password: str = ""


class _JupyterFile(msgspec.Struct, frozen=True):
    provider: _Provider = msgspec.field(default=_Provider(), name="PasswordIdentityProvider")


def _decoded(data: str) -> bytes:
    return msgspec.convert(data, bytes)


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


def _line(path: Path, field: str) -> str:
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
