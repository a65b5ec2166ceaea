"""Find and list Frameworks of both API groups, and list other objects page by page.

A user with permissions for only one of the two groups can use the Frameworks of that group.
"""

from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from windlass.client.connection import Connection
from windlass.client.errors import ClientError, JobNotFoundError, NotInstalledError
from windlass.k8s import metadata
from windlass.k8s.formats import is_object_name
from windlass.kubeapi import requests, responses
from windlass.kubeapi.errors import ForbiddenError, NotFoundError, ResponseError
from windlass.kubeapi.resources import Resource, frameworks
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.wire import codec, diagnostics
from windlass.wire.codec import InvalidFramework

GROUPS = (names.CONTROLLER_GROUP, names.LAUNCHER_GROUP)
"""The API groups in the order in which they are queried. Frameworks of job files belong to the first one."""

_USER_METADATA = ("name", "namespace", "labels", "annotations")

# One Framework


async def find(connection: Connection, name: str) -> Framework:
    """Return the Framework of that name. Raises ObjectNotFoundError, and the errors of `Connection.send`."""
    found = await find_or_none(connection, name)
    if found is None:
        raise await not_found_error(connection, name)
    return found


async def find_or_none(connection: Connection, name: str) -> Framework | None:
    found = await find_all(connection, name)
    return require_valid(found[0]) if found else None


async def find_all(connection: Connection, name: str) -> tuple[Framework | InvalidFramework, ...]:
    """Return the Frameworks of that name, at most one of each group.

    If there are two, one of them is blocked until the other is deleted.
    """
    if not is_object_name(name):  # an empty name would request the collection
        return ()
    denied: ForbiddenError | None = None
    found = []
    for group in GROUPS:
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


async def read_raw(connection: Connection, framework: Framework) -> bytes:
    """Return the Framework as the API server stores it, including fields that the model does not have."""
    return await connection.send(
        requests.get(frameworks(framework.group), connection.namespace, framework.name)
    )


async def read_manifest(connection: Connection, framework: Framework) -> Json:
    """Return the Framework as a user would write it: without the fields that the API server and the controller set."""
    body: Json = msgspec.json.decode(await read_raw(connection, framework))
    metadata = {key: value for key, value in body["metadata"].items() if key in _USER_METADATA}
    return {**{key: value for key, value in body.items() if key != "status"}, "metadata": metadata}


def require_valid(found: Framework | InvalidFramework) -> Framework:
    """Return the Framework. Raises ClientError if it is invalid."""
    if isinstance(found, Framework):
        return found
    name = found.metadata.name
    raise ClientError(
        f"the stored job {name} is invalid: {found.error}. "
        f"Fix it with `kubectl edit`, or delete it with `windlass delete {name}`."
    )


async def not_found_error(
    connection: Connection, name: str, other_names: Iterable[str] = ()
) -> JobNotFoundError:
    """Return the error for a job that does not exist. `other_names` are further names to suggest."""
    rule = "" if is_object_name(name) else " (names consist of lower-case letters, digits and hyphens)"
    missing = f"there is no job {diagnostics.quoted(name)}{rule} in the namespace {connection.namespace}"
    names_to_suggest, not_installed = set(other_names), None
    try:
        names_to_suggest |= {job.metadata.name for job in await list_frameworks(connection)}
    except NotInstalledError as error:
        not_installed = error
    except ResponseError:
        return JobNotFoundError(f"{missing} of {connection.where}")
    if suggestion := diagnostics.nearest(name, tuple(sorted(names_to_suggest))):
        return JobNotFoundError(f"{missing}. Did you mean {diagnostics.quoted(suggestion)}?")
    if not_installed is not None:
        return not_installed
    if names_to_suggest:
        return JobNotFoundError(f"{missing}. List the jobs with `windlass list -n {connection.namespace}`.")
    return JobNotFoundError(
        f"{missing}, nor any other job. List the jobs of all namespaces with `windlass list -A`."
    )


def not_installed_error(connection: Connection) -> NotInstalledError:
    return NotInstalledError(
        f"Windlass is not installed on {connection.where}: the cluster has no Framework definition. "
        "Install it with `windlass install --apply`."
    )


# Lists


async def list_frameworks(
    connection: Connection, *, in_all_namespaces: bool = False
) -> tuple[Framework | InvalidFramework, ...]:
    """Return Frameworks sorted by namespace and name. Raises NotInstalledError, and the errors of `Connection.send`."""
    listed = await list_raw_frameworks(connection, in_all_namespaces=in_all_namespaces)
    return tuple(codec.read_framework(item) for item in listed)


async def list_raw_frameworks(
    connection: Connection, *, in_all_namespaces: bool = False
) -> tuple[msgspec.Raw, ...]:
    """Return the Frameworks as the API server stores them, sorted by namespace and name."""
    namespace = "" if in_all_namespaces else connection.namespace
    found: list[msgspec.Raw] = []
    denied: ForbiddenError | None = None
    is_any_served = False
    for group in GROUPS:
        try:
            found += await list_objects(connection, frameworks(group), namespace)
            is_any_served = True
        except NotFoundError:
            continue
        except ForbiddenError as error:
            denied = error
    if not is_any_served:
        raise denied or not_installed_error(connection)
    return tuple(sorted(found, key=_namespace_and_name))


async def list_objects(
    connection: Connection,
    resource: Resource,
    namespace: str,
    label_selector: str = "",
    field_selector: str = "",
) -> list[msgspec.Raw]:
    """Return all objects of a kind, or those that the selectors match. An empty `namespace` stands for all."""
    pages = list_pages(connection, resource, namespace, label_selector, field_selector)
    return [body async for page in pages for body in page]


async def list_pages(
    connection: Connection,
    resource: Resource,
    namespace: str,
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncIterator[Sequence[msgspec.Raw]]:
    """Yield the objects of `list_objects` page by page."""
    token = ""
    while True:
        request = requests.list_page(
            resource, namespace, label_selector, continue_token=token, field_selector=field_selector
        )
        page = responses.decode_page(await connection.send(request))
        yield page.objects
        token = page.metadata.continue_
        if not token:
            return


def _namespace_and_name(body: msgspec.Raw) -> tuple[str, str]:
    found = metadata.decode_name(body).metadata
    return found.namespace, found.name
