"""Forward local ports to the companions of a run until the run ends.

Companions do not affect the results of jobs.
"""

import asyncio
import webbrowser
from collections.abc import Awaitable, Callable, Iterable, Mapping

import aiohttp

from windlass.client.connection import Connection
from windlass.client.errors import ClientError
from windlass.client.submit.plan import CompanionRef
from windlass.kubeapi.errors import ApiError
from windlass.kubeapi.transport import Transport
from windlass.model.companions import Companion
from windlass.runner import report as reports
from windlass.runner.options import ForwardOptions
from windlass.runner.report import CompanionReadyLine, Line, Topic

POLL_SECONDS = 3.0
"""Interval of requests to a TensorBoard without runs."""
_RESPONSE_SECONDS = 30.0

Report = Callable[[Line], None]
Note = Callable[[str], None]
Sleep = Callable[[float], Awaitable[object]]


class Companions:
    def __init__(self, transport: Transport, report: Report, options: ForwardOptions) -> None:
        self._transport = transport
        self._report = report
        self._options = options
        self._urls: dict[CompanionRef, str] = {}
        self._ready_or_failed: dict[CompanionRef, asyncio.Event] = {}
        """Set when a companion is ready or has failed."""
        self._tasks: dict[CompanionRef, asyncio.Task[None]] = {}
        """Each task ends when its companion fails or the task is cancelled."""

    def open(self, companions: Iterable[CompanionRef]) -> None:
        """Start to forward a port to each companion as soon as it is ready."""
        for each in companions:
            self._ready_or_failed[each] = asyncio.Event()
            self._tasks[each] = asyncio.create_task(self._forward_reporting_errors(each))

    @property
    def is_any_kept(self) -> bool:
        return any(each.is_kept for each in self._active)

    @property
    def urls(self) -> Mapping[str, str]:
        """URLs of the active companions, by name. The URL of a companion that is not ready yet is empty."""
        return {each.name: self._urls.get(each, "") for each in self._active}

    async def wait_until_ready_or_failed(self) -> None:
        """Wait until each companion is ready or has failed."""
        for event in self._ready_or_failed.values():
            await event.wait()

    async def wait_until_all_failed(self, *, only_kept: bool = False) -> None:
        """Wait until all companions have failed. `only_kept`: only those that keep a run open after its jobs
        have ended."""
        tasks = [task for each, task in self._tasks.items() if each.is_kept or not only_kept]
        if tasks:
            await asyncio.wait(tasks)

    def report_not_ready(self) -> None:
        """Report each companion that is neither ready nor has failed, because the run ends before."""
        for ref, event in self._ready_or_failed.items():
            if not event.is_set():
                hint = (
                    "" if ref.is_kept else f"; to keep the run open, write `{ref.companion}: {{keep: true}}`"
                )
                message = f"the run ended before it was ready{hint}"
                self._report(Line(Topic.COMPANION, reports.now(), ref.name, "NotReady", message))

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    @property
    def _active(self) -> list[CompanionRef]:
        return [each for each, task in self._tasks.items() if not task.done()]

    async def _forward_reporting_errors(self, ref: CompanionRef) -> None:
        try:
            await self._forward(ref)
        except (ClientError, ApiError) as error:
            # The message may include the last lines of the companion's log.
            for line in str(error).splitlines():
                self._report(Line(Topic.COMPANION, reports.now(), ref.name, "Failed", line))
        finally:
            self._ready_or_failed[ref].set()

    async def _forward(self, ref: CompanionRef) -> None:
        # Imported here: few runs have companions.
        from windlass.client.companions import status as companion_status

        def note(message: str) -> None:
            self._report(Line(Topic.COMPANION, reports.now(), ref.name, "Note", message))

        options = self._options
        connection = Connection(self._transport, ref.namespace, has_answered=True)
        view = await companion_status.until_ready(connection, ref.job, ref.companion, timeout=None)
        forwarding = companion_status.forward(
            connection, view, port=options.port, address=options.address, note=note
        )
        async with forwarding as forward:
            url = self._urls[ref] = forward.url
            self._report(
                CompanionReadyLine(Topic.COMPANION, reports.now(), ref.name, "Ready", f"ready at {url}", url)
            )
            self._ready_or_failed[ref].set()
            if options.opens_browser:
                await open_browser(url, note)
            if ref.companion is Companion.TENSORBOARD:
                await report_tensorboard_runs(url, view.logdir, note)
            await asyncio.Event().wait()


async def open_browser(url: str, note: Note) -> None:
    """Open a URL, or note that there is no browser."""
    if not await asyncio.to_thread(webbrowser.open, url):
        note(f"no browser found: open {url} yourself")


async def report_tensorboard_runs(url: str, logdir: str, note: Note, sleep: Sleep = asyncio.sleep) -> None:
    """If a TensorBoard has no runs yet, note it, then wait for the first runs and note their names."""
    runs = await tensorboard_runs(url)
    if runs is None or runs:
        return
    note(f"{logdir or 'its log directory'} has no runs yet: they appear as soon as tasks write them")
    # TensorBoard itself scans its directory every few seconds.
    while not (runs := await tensorboard_runs(url)):
        await sleep(POLL_SECONDS)
    note(f"found runs: {', '.join(runs)}")


async def tensorboard_runs(url: str) -> list[str] | None:
    """Return the runs of a TensorBoard, or None if it does not return a list of runs."""
    timeout = aiohttp.ClientTimeout(total=_RESPONSE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url}data/runs") as response,
        ):
            runs = await response.json()
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
    return [str(each) for each in runs] if isinstance(runs, list) else None
