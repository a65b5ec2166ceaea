"""Resolve the settings of companions that a job file leaves open: their passwords.

A password is read from its source or generated, and only its hash is stored on the cluster. Passwords of an earlier
submission stay valid: see `with_existing_passwords`.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from windlass.client import paths
from windlass.client.errors import InvalidJobError
from windlass.model.base import Json
from windlass.model.companions import Companion, Hub, Jupyter, TensorBoard, password_source
from windlass.model.job import Job
from windlass.render.companions import password_files, passwords
from windlass.render.companions.password_files import ALL_USERS
from windlass.render.companions.servers import ResolvedCompanions

MAX_PASSWORD_BYTES = 4096
"""Size limit of a password file."""

_ADVICE = "or remove passwordFrom: then a password is generated and shown once"


def chosen_passwords(job: Job, folder: Path, environ: Mapping[str, str]) -> dict[Companion, str]:
    """Return the passwords in the variables and files that `passwordFrom` names. `folder` contains the job file.

    Raises InvalidJobError.
    """
    found: dict[Companion, str] = {}
    for companion, options in job.companions.items():
        source, field = password_source(options), f"{companion}.passwordFrom"
        if source.env:
            found[companion] = _checked(_read_variable(source.env, environ, field), field)
        elif source.file:
            found[companion] = _checked(_read_file(folder, source.file, field), field)
    return found


def resolve(job: Job, chosen: Mapping[Companion, str], *, is_embedded: bool) -> ResolvedCompanions:
    """Generate the missing passwords, and hash all of them.

    TensorBoard, which has no password, and companions with a Secret in `passwordFrom` are skipped.
    """
    generated: dict[Companion, dict[str, str]] = {}
    hashes: dict[Companion, dict[str, str]] = {}
    for companion, options in job.companions.items():
        if isinstance(options, TensorBoard) or password_source(options).secret:
            continue
        common = {ALL_USERS: chosen[companion]} if companion in chosen else {}
        new = {
            user: passwords.generate()
            for user in _users_without_password(options, has_common_password=bool(common))
        }
        if new:
            generated[companion] = new
        texts = {**common, **new}
        hashes[companion] = {
            user: password_files.hash_password(companion, text) for user, text in texts.items()
        }
    return ResolvedCompanions(hashes=hashes, generated=generated, is_embedded=is_embedded)


def password_notice(subject: str, password: str) -> str:
    """Return the sentence that shows a generated password."""
    return f"{subject} (shown once): {password}"


def with_existing_passwords(
    companion: Companion, resolved: ResolvedCompanions, chosen: Mapping[Companion, str], secret: Json
) -> ResolvedCompanions:
    """Keep the passwords in the Secret of an earlier submission.

    A new common password from `passwordFrom` replaces the old one. Users with their own passwords keep them. If the
    Secret or `resolved` has no common password, only users who are in `resolved` keep theirs.
    """
    existing = password_files.hashes_in(companion, secret.get("data") or {})
    text, planned = chosen.get(companion), resolved.hashes[companion]
    has_common_password = ALL_USERS in existing and ALL_USERS in planned
    kept = {
        user: hashed
        for user, hashed in existing.items()
        if (has_common_password or user in planned)
        and (text is None or user != ALL_USERS or password_files.verify(companion, hashed, text))
    }
    generated = {
        user: password for user, password in resolved.generated.get(companion, {}).items() if user not in kept
    }
    return msgspec.structs.replace(
        resolved,
        hashes={**resolved.hashes, companion: {**planned, **kept}},
        generated={**resolved.generated, companion: generated},
    )


def _users_without_password(options: Jupyter | Hub, *, has_common_password: bool) -> tuple[str, ...]:
    """Return the users to generate a password for. Admins, who can stop the servers of others, always get their own."""
    if isinstance(options, Jupyter):
        return () if has_common_password else (ALL_USERS,)
    users = () if has_common_password else options.users or (ALL_USERS,)
    # JupyterHub converts user names to lower case.
    return tuple(dict.fromkeys(user.lower() for user in (*users, *options.admins)))


def _read_variable(name: str, environ: Mapping[str, str], field: str) -> str:
    if name not in environ:
        raise InvalidJobError(f"{field}: the variable {name} is not set: set it, {_ADVICE}")
    text = environ[name]
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidJobError(f"{field}: the variable {name} is not valid UTF-8") from error
    return text


def _read_file(folder: Path, file: str, field: str) -> str:
    path = folder / paths.expanded(file)
    try:
        with path.open("rb") as stream:
            # Reading is limited because the file may be endless.
            data = stream.read(MAX_PASSWORD_BYTES + 1)
    except OSError as error:
        raise InvalidJobError(
            f"{field}: cannot read {path}: {error.strerror or error}. Write the password to it, {_ADVICE}"
        ) from error
    if len(data) > MAX_PASSWORD_BYTES:
        raise InvalidJobError(
            f"{field}: {path} has more than {MAX_PASSWORD_BYTES} bytes: expected only a password"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidJobError(f"{field}: {path} is not valid UTF-8") from error
    return text.removesuffix("\n").removesuffix("\r")


def _checked(text: str, field: str) -> str:
    """Return the password. Raise InvalidJobError, without quoting the password, if it is unusable."""
    if problem := passwords.problem_of(text):
        raise InvalidJobError(f"{field}: invalid password: {problem}. Choose another one")
    return text
