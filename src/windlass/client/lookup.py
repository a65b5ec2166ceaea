"""Which Framework a name means. There are two groups; whoever has rights on the one in which it is needs no others."""

import re
from collections.abc import Iterable

from windlass.client import listing
from windlass.client.connection import Connection
from windlass.client.errors import ClientError, NotInstalledError, NotThereError
from windlass.kubeapi import requests
from windlass.kubeapi.errors import AnsweredError, ForbiddenError, NotFoundError
from windlass.kubeapi.resources import frameworks
from windlass.model.framework import Framework
from windlass.wire import codec, diagnostics
from windlass.wire.codec import Unreadable

can_be_a_name = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?").fullmatch
"""Of any object. What cannot be is not asked for: the path of a nameless one is that of all."""


async def find(connection: Connection, name: str) -> Framework:
    """Raises NotThereError, and what `Connection.send` raises."""
    found = await find_if_any(connection, name)
    if found is None:
        raise await not_there(connection, name)
    return found


async def find_if_any(connection: Connection, name: str) -> Framework | None:
    found = await look_up(connection, name)
    return readable(found[0]) if found else None


async def look_up(connection: Connection, name: str) -> tuple[Framework | Unreadable, ...]:
    """Every Framework of that name: there may be one of each group, of which one waits for the other to go."""
    if not can_be_a_name(name):
        return ()
    denied: ForbiddenError | None = None
    found = []
    for group in listing.GROUPS:
        try:
            answer = await connection.send(requests.get(frameworks(group), connection.namespace, name))
        except NotFoundError:
            continue
        except ForbiddenError as error:
            denied = error
            continue
        found.append(codec.read_framework(answer))
    if not found and denied is not None:
        raise denied
    return tuple(found)


async def written(connection: Connection, framework: Framework) -> bytes:
    """As the API server has it now, with all that the model does not read."""
    return await connection.send(
        requests.get(frameworks(framework.group), connection.namespace, framework.name)
    )


def readable(found: Framework | Unreadable) -> Framework:
    """Raises ClientError."""
    if isinstance(found, Framework):
        return found
    raise ClientError(
        f"the job {found.metadata.name} makes no sense as it is stored: {found.error}. "
        f"Put it right with `kubectl edit`, or remove it with `windlass delete {found.metadata.name}`."
    )


async def not_there(connection: Connection, name: str, others: Iterable[str] = ()) -> NotThereError:
    """What somebody is told who asked for a job that is not there. `others` could have been meant too."""
    where = f"there is no job {diagnostics.quoted(name)} in the namespace {connection.namespace}"
    if not can_be_a_name(name):
        where += ": names are made of lower-case letters, digits and hyphens"
    try:
        jobs = {job.metadata.name for job in await listing.frameworks_of(connection)}
    except NotInstalledError as error:
        if not (suggestion := diagnostics.nearest(name, tuple(sorted(others)))):
            return error
        return NotThereError(f"{where}. Did you mean {diagnostics.quoted(suggestion)}?")
    except AnsweredError:
        return NotThereError(f"{where} of {connection.where}")
    known = tuple(sorted({*jobs, *others}))
    if not known:
        return NotThereError(f"{where}. There is no other job either. Other namespaces: `windlass list -A`.")
    if suggestion := diagnostics.nearest(name, known):
        return NotThereError(f"{where}. Did you mean {diagnostics.quoted(suggestion)}?")
    return NotThereError(f"{where}. `windlass list -n {connection.namespace}` shows what is there.")
