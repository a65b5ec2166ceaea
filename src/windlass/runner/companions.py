"""The companions of a run: each is waited for, and a port of this machine leads to it for as long as the run goes on.

How one is reached is the business of `client.companions` and `client.forwarding`. None of them decides how a job ends.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from windlass.client.companions import resolution
from windlass.client.connection import Connection
from windlass.client.errors import ClientError
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.transport import Transport
from windlass.model.companions import Companion
from windlass.runner.report import Line, Opened, Topic
from windlass.runner.run_plan import Beside, Doors, Work

Tell = Callable[[Line], None]


class Companions:
    def __init__(self, transport: Transport, tell: Tell, doors: Doors) -> None:
        self._transport = transport
        self._tell = tell
        self._doors = doors
        self._urls: dict[Beside, str] = {}
        self._settled: dict[Beside, asyncio.Event] = {}
        self._tasks: dict[Beside, asyncio.Task[None]] = {}
        """One ends where its companion cannot be had; the others when they are cancelled."""

    def tell_passwords(self, work: Work) -> None:
        """Of those that are objects of the file. A job's are told where they are made."""
        for each in work.written_companions:
            if each.job in work.shown:
                message = resolution.shown_once("the password", work.shown[each.job])
                self._tell(Line(Topic.COMPANION, _now(), each.name, "Password", message))

    def open(self, wanted: Iterable[Beside]) -> None:
        """As soon as each of them is ready."""
        for each in wanted:
            self._settled[each] = asyncio.Event()
            self._tasks[each] = asyncio.create_task(self._lead_to(each))

    @property
    def is_any_kept(self) -> bool:
        return any(each.is_kept for each in self._going_on)

    @property
    def where(self) -> Mapping[str, str]:
        """The URLs of those that are open or will be, as far as they are known."""
        return {each.name: self._urls.get(each, "") for each in self._going_on}

    async def until_settled(self) -> None:
        """Each is open, or cannot be had."""
        for settled in self._settled.values():
            await settled.wait()

    async def until_gone(self, *, are_kept: bool = False) -> None:
        """None of them can be had. `are_kept`: it is about those that a run stays open for."""
        tasks = [task for each, task in self._tasks.items() if each.is_kept or not are_kept]
        if tasks:
            await asyncio.wait(tasks)

    async def end(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    @property
    def _going_on(self) -> list[Beside]:
        return [each for each, task in self._tasks.items() if not task.done()]

    async def _lead_to(self, beside: Beside) -> None:
        try:
            await self._forward(beside)
        except (ClientError, ApiError) as error:
            # The last lines of its log are among them.
            for line in str(error).splitlines():
                self._tell(Line(Topic.COMPANION, _now(), beside.name, "Failed", line))
        finally:
            self._settled[beside].set()

    async def _forward(self, beside: Beside) -> None:
        # Few runs have companions.
        from windlass.client.companions import status as companion_status
        from windlass.runner import browser, tensorboard_runs

        def note(message: str) -> None:
            self._tell(Line(Topic.COMPANION, _now(), beside.name, "Note", message))

        doors = self._doors
        connection = Connection(self._transport, beside.namespace, has_answered=True)
        view = await companion_status.until_ready(connection, beside.job, beside.companion, timeout=None)
        leading = companion_status.forward(
            connection, view, port=doors.port, address=doors.address, note=note
        )
        async with leading as forward:
            url = self._urls[beside] = forward.url
            self._tell(Opened(Topic.COMPANION, _now(), beside.name, "Ready", f"is ready: {url}", url))
            self._settled[beside].set()
            if doors.opens_browser:
                await browser.open_at(url, note)
            if beside.companion is Companion.TENSORBOARD:
                await tensorboard_runs.tell(url, view.logdir, note)
            await asyncio.Event().wait()


def _now() -> datetime:
    return datetime.now(UTC)
