"""Write reports about the jobs of a run at its end, also if a job failed or the run was interrupted."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from windlass.client.errors import ClientError
from windlass.client.submit.plan import SubmitPlan
from windlass.render.manifest import Manifest
from windlass.runner.interrupts import Interrupts
from windlass.runner.report import Line, Reporter, Topic, Verdict, now


class ReportWriter:
    def __init__(
        self, plan: SubmitPlan, path: Path | None, socket: Path, interrupts: Interrupts, reporter: Reporter
    ) -> None:
        """`path`: the file, or the pattern of the files of several jobs; None to write nothing."""
        self._jobs = () if path is None or plan.companions_only else plan.jobs
        self._path = path or Path()
        self._socket = socket
        self._interrupts = interrupts
        self._reporter = reporter

    async def write(self, verdicts: Sequence[Verdict]) -> None:
        """Write the reports. Ctrl-C ends that. Errors of the run, e.g. a timeout, become notes of the reports."""
        if not self._jobs:
            return
        notes = [each.message for each in verdicts if each.event is Topic.ERROR]
        self._interrupts.end.clear()
        self._interrupts.can_be_graceful = False
        writing = asyncio.create_task(self._write_all(notes))
        interrupted = asyncio.create_task(self._interrupts.end.wait())
        await asyncio.wait((writing, interrupted), return_when=asyncio.FIRST_COMPLETED)
        is_written = writing.done()
        for task in (writing, interrupted):
            task.cancel()
        await asyncio.gather(writing, interrupted, return_exceptions=True)
        if is_written:
            writing.result()
        else:
            self._report("the report is incomplete: it was interrupted")

    async def _write_all(self, notes: Sequence[str]) -> None:
        for job in self._jobs:
            path = path_of(self._path, job.key, [each.key for each in self._jobs])
            try:
                await self._write(job, path, notes)
            except (ClientError, OSError) as error:
                self._report(f"cannot write the report {path}: {error}")
            else:
                self._report(f"report: {path}")

    async def _write(self, job: Manifest, path: Path, notes: Sequence[str]) -> None:
        # Imported here: most runs write no report.
        from windlass.client.connection import connected_with
        from windlass.client.report import writing
        from windlass.kubeapi import access

        with path.open("wb") as file:
            async with connected_with(access.unix(self._socket), job.namespace) as connection:
                await writing.write(connection, job.name, file.write, writing.format_of(path), notes=notes)

    def _report(self, message: str) -> None:
        self._reporter.report(Line(Topic.NOTE, now(), "cluster", "Report", message))


def path_of(path: Path, job: tuple[str, str], jobs: Sequence[tuple[str, str]]) -> Path:
    """Return the file for the report about a job of a run. Jobs are given by namespace and name."""
    if len(jobs) == 1:
        return path
    is_unique = sum(name == job[1] for _, name in jobs) == 1
    return path.with_stem(f"{path.stem}-{job[1] if is_unique else '-'.join(job)}")
