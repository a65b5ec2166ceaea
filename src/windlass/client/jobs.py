"""Find and list jobs, whether they have a Framework or were created without one."""

from collections.abc import AsyncGenerator

import msgspec

from windlass.client import lookup, plain_jobs, watch
from windlass.client.connection import Connection
from windlass.client.errors import JobNotFoundError, NotInstalledError
from windlass.k8s.formats import is_object_name
from windlass.k8s.metadata import decode_name
from windlass.kubeapi.resources import frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import InvalidFramework


async def find(connection: Connection, name: str) -> Framework:
    """Return the Framework of that name, or else the job that was created without one. Raises as `lookup.find`."""
    found = await find_or_none(connection, name)
    if found is None:
        raise await not_found_error(connection, name)
    return found


async def find_or_none(connection: Connection, name: str) -> Framework | None:
    found = await lookup.find_or_none(connection, name)
    return found or (await plain_jobs.find(connection, name) if is_object_name(name) else None)


async def not_found_error(connection: Connection, name: str) -> JobNotFoundError:
    others = await plain_jobs.find_all(connection)
    return await lookup.not_found_error(connection, name, [each.name for each in others])


async def list_raw(connection: Connection, *, in_all_namespaces: bool = False) -> tuple[msgspec.Raw, ...]:
    """Return all jobs as JSON, those without a Framework after those with one. Raises NotInstalledError if there are
    neither, and the errors of `Connection.send`."""
    plain = await plain_jobs.find_all(connection, in_all_namespaces=in_all_namespaces)
    listed: tuple[msgspec.Raw, ...] = ()
    try:
        listed = await lookup.list_raw_frameworks(connection, in_all_namespaces=in_all_namespaces)
    except NotInstalledError:
        if not plain:
            raise
    known = {(each.namespace, each.name) for body in listed for each in (decode_name(body).metadata,)}
    others = (each for each in plain if (each.namespace, each.name) not in known)
    return (*listed, *(msgspec.Raw(codec.encode_framework(each)) for each in others))


async def list_jobs(
    connection: Connection, *, in_all_namespaces: bool = False
) -> tuple[Framework | InvalidFramework, ...]:
    """Return all jobs, sorted by namespace and name. Raises as `list_raw`."""
    listed = await list_raw(connection, in_all_namespaces=in_all_namespaces)
    found = map(codec.read_framework, listed)
    return tuple(sorted(found, key=lambda each: (each.metadata.namespace, each.metadata.name)))


async def latest(connection: Connection) -> tuple[str, int]:
    """Return the name of the job that was created last, and the number of jobs. Raises JobNotFoundError."""
    found = await list_jobs(connection)
    if not found:
        raise JobNotFoundError(
            f"there are no jobs in the namespace {connection.namespace}. "
            "List the jobs of all namespaces with `windlass list -A`."
        )
    times = {each.metadata.name: each.metadata.creation_timestamp for each in found}
    return max(times, key=lambda name: str(times[name] or "")), len(found)


def watch_changes(connection: Connection, *, in_all_namespaces: bool = False) -> AsyncGenerator[None, None]:
    """Yield at the start and whenever `list_jobs` may return something else."""
    kinds = (*map(frameworks, names.GROUPS), *plain_jobs.WATCHED)
    return watch.watch_several(connection, kinds, in_all_namespaces=in_all_namespaces)
