"""Apply `stop`, `suspend`, `resume` or `delete` to several jobs, even if some of them are missing or completed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.lifecycle import Change

T = TypeVar("T")


async def apply_to_each(
    names: Sequence[str], act: Callable[[str], Awaitable[T]]
) -> tuple[list[T], list[str]]:
    """Apply `act` to each job. Return the results, and the messages of ObjectNotFoundError and CompletedError."""
    from windlass.client.errors import CompletedError, NotInstalledError, ObjectNotFoundError

    results: list[T] = []
    errors: list[str] = []
    for name in dict.fromkeys(names):
        try:
            results.append(await act(name))
        except NotInstalledError:
            raise
        except (ObjectNotFoundError, CompletedError) as error:
            errors.append(str(error))
    return results, errors


def raise_errors(errors: Sequence[str]) -> None:
    """Raise ClientError if there are errors."""
    from windlass.client.errors import ClientError

    if errors:
        raise ClientError("\n".join(errors))


async def change(
    connection: "Connection",
    names: Sequence[str],
    change_job: "Callable[[Connection, str], Awaitable[Change]]",
) -> None:
    """Change each job and print the message about the change. Raises ClientError."""

    async def act(name: str) -> None:
        click.echo((await change_job(connection, name)).message)

    _, errors = await apply_to_each(names, act)
    raise_errors(errors)
