"""What `stop`, `suspend`, `resume` and `delete` share: they take several jobs, and one that is not there keeps no other
from its turn.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from windlass.client.connection import Connection
    from windlass.client.lifecycle import Change

T = TypeVar("T")


async def each(names: Sequence[str], act: Callable[[str], Awaitable[T]]) -> tuple[list[T], list[str]]:
    """What each gave, and a message for each that could not be had."""
    from windlass.client.errors import CompletedError, NotInstalledError, NotThereError

    given: list[T] = []
    refusals: list[str] = []
    for name in dict.fromkeys(names):
        try:
            given.append(await act(name))
        except NotInstalledError:
            raise
        except (NotThereError, CompletedError) as error:
            refusals.append(str(error))
    return given, refusals


def insist(refusals: Sequence[str]) -> None:
    """Raises ClientError if there are any."""
    from windlass.client.errors import ClientError

    if refusals:
        raise ClientError("\n".join(refusals))


async def change(
    connection: "Connection", names: Sequence[str], use: "Callable[[Connection, str], Awaitable[Change]]"
) -> None:
    """Says what became of each."""

    async def act(name: str) -> None:
        click.echo((await use(connection, name)).message)

    _, refusals = await each(names, act)
    insist(refusals)
