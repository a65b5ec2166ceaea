"""Jobs: the list, its stream, one job, its timeline and its attempts."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from windlass.client import cluster_info, history, lookup, plain_jobs, timeline
from windlass.client.explain import explanation
from windlass.client.history import JobHistory
from windlass.client.job_watch import JobWatch, Key
from windlass.web import problems, rows
from windlass.web.calls import Call, EventStream
from windlass.web.schema import (
    JobDetail,
    JobKey,
    JobList,
    JobRow,
    JobRows,
    NamespacePermissions,
    Namespaces,
    Permissions,
    TaskAttemptDetail,
    TimelineAnswer,
)
from windlass.wire.yaml import dump as yaml_dump

MIN_INTERVAL_SECONDS = 0.2
"""Minimum time between two messages of the stream of all jobs."""
MIN_DETAIL_SECONDS = 1.0
MAX_TASKS_WITH_PODS = 1_000
"""Number of tasks up to which the pods of a job are read to explain it."""
LAST_LINES = 50
"""Number of last lines of an attempt of a task."""
ROWS_PER_STEP = 50
"""Number of rows that are converted before other requests get their turn."""


def _duration(row: JobRow) -> float:
    """Return the seconds from the start of a job until its end or now."""
    if row.duration_seconds is not None or row.started is None or row.finished is not None:
        return row.duration_seconds or 0
    return (datetime.now(UTC) - datetime.fromisoformat(row.started)).total_seconds()


_SORT_KEYS: dict[str, Callable[[JobRow], Any]] = {
    "created": lambda row: row.created or "",
    "name": lambda row: (row.name, row.namespace),
    "namespace": lambda row: (row.namespace, row.name),
    "state": lambda row: (row.state, row.name),
    "duration": _duration,
    "started": lambda row: row.started or "",
    "finished": lambda row: row.finished or "",
}


async def namespaces(call: Call) -> Namespaces:
    viewer = call.viewer
    found, may_list_all = await asyncio.gather(
        viewer.cached(("namespaces",), lambda: cluster_info.namespaces(viewer.connection)),
        viewer.may("list"),
    )
    return Namespaces(items=tuple(sorted({*found, viewer.connection.namespace})), all=may_list_all)


async def read_permissions(call: Call) -> NamespacePermissions:
    scope = call.scope()
    found = await call.viewer.permissions("" if scope == "*" else scope)
    fields = {name: getattr(found, name) for name in Permissions.__struct_fields__}
    return NamespacePermissions(**fields, submit=found.run_again)


async def list_jobs(call: Call) -> JobList:
    sort = call.query("sort", "-created")
    key = _SORT_KEYS.get(sort.removeprefix("-"))
    if key is None:
        raise problems.invalid(
            f"sort: found {sort[:50]!r}, expected one of {', '.join(_SORT_KEYS)}, or - and one"
        )
    page, size = call.number("page", 1, 1, 10**6), call.number("size", 50, 1, 1000)
    states = {each for each in call.query("state").split(",") if each}
    text = call.query("q").casefold()
    watch = await call.viewer.jobs(call.scope())
    found = [
        row
        for row in await _read(watch, watch.all_keys())
        if not text or text in f"{row.namespace}/{row.name} {row.verdict} {row.message}".casefold()
    ]
    counts = Counter(row.state for row in found)
    selected = [row for row in found if not states or row.state in states]
    selected.sort(key=lambda row: (row.namespace, row.name))
    selected.sort(key=key, reverse=sort.startswith("-"))
    start = (page - 1) * size
    items = [call.viewer.with_progress(row) for row in selected[start : start + size]]
    return JobList(items=items, total=len(selected), counts=counts, page=page, size=size)


async def stream_jobs(call: Call) -> web.StreamResponse:
    scope = call.scope()
    async with EventStream(call) as stream:
        watch = await call.viewer.jobs(scope)
        stream.check = lambda: _require_same(call, scope, watch)
        with watch.changes() as changes:
            while True:
                keys = await stream.pinging(changes.take())
                await watch.ready()
                upserts = [call.viewer.with_progress(row) for row in await _read(watch, keys)]
                existing = {(row.namespace, row.name) for row in upserts}
                deleted = [JobKey(namespace=each[0], name=each[1]) for each in sorted(keys - existing)]
                await stream.send("rows", JobRows(upserts=upserts, deleted=deleted))
                await asyncio.sleep(MIN_INTERVAL_SECONDS)
    return stream.response


async def _require_same(call: Call, scope: str, watch: JobWatch[JobRow]) -> None:
    """Raise the error of a watch that has ended, e.g. because the viewer may not list jobs any more."""
    if await call.viewer.jobs(scope) is not watch:
        await watch.ready()
        raise problems.ProblemError(503, "interrupted", "the watch of the jobs was interrupted")


async def _read(watch: JobWatch[JobRow], keys: set[Key]) -> list[JobRow]:
    found = []
    for number, key in enumerate(sorted(keys)):
        if number % ROWS_PER_STEP == ROWS_PER_STEP - 1:
            await asyncio.sleep(0)
        if (row := watch.get(key)) is not None:
            found.append(row)
    return found


# One job


async def read_job(call: Call) -> JobDetail:
    return await _detail(call)


async def stream_job(call: Call) -> web.StreamResponse:
    namespace = call.namespace
    async with EventStream(call) as stream:
        watch = await call.viewer.jobs(namespace)
        stream.check = lambda: _require_same(call, namespace, watch)
        with watch.changes() as changes:
            keys = {(call.namespace, call.name)}
            await stream.pinging(changes.take())
            while True:
                await watch.ready()
                if (call.namespace, call.name) in keys:
                    await stream.send("job", await _detail(call))
                    await asyncio.sleep(MIN_DETAIL_SECONDS)
                keys = await stream.pinging(changes.take())
    return stream.response


async def _detail(call: Call) -> JobDetail:
    connection = call.connection
    found, permissions = await asyncio.gather(
        history.find(connection, call.name), call.viewer.permissions(call.namespace)
    )
    has_pods = sum(found.view.roles.values()) <= MAX_TASKS_WITH_PODS
    explained, spec = await asyncio.gather(
        explanation.read_history(
            connection, found, explanation.LAST_LINES, datetime.now(UTC), has_pods=has_pods
        ),
        _spec(call, found),
    )
    row = rows.of_job(found)
    fields = {name: getattr(row, name) for name in JobRow.__struct_fields__}
    return JobDetail(
        **fields,
        why=rows.why(explained),
        facts=rows.facts(found.framework),
        spec=spec,
        tasks=rows.task_rows(found.view),
        permissions=_possible(permissions, row),
        attempts=[each.attempt for each in found.attempts],
    )


async def _spec(call: Call, found: JobHistory) -> str:
    if found.is_deleted or plain_jobs.is_plain(found.framework):
        return ""
    body = await lookup.read_manifest(call.connection, found.framework)
    return yaml_dump.dump(body).decode()


def _possible(permissions: Permissions, row: JobRow) -> Permissions:
    """Return what the viewer may do and what the state of the job allows."""
    is_over = row.finished is not None or not row.exists
    is_ending = is_over or row.state == "Deleting"
    return Permissions(
        stop=permissions.stop and not is_ending,
        suspend=permissions.suspend and not is_ending and not row.suspended,
        resume=permissions.resume and not is_ending and row.suspended,
        delete=permissions.delete and row.exists,
        run_again=permissions.run_again and row.exists,
        logs=permissions.logs,
    )


async def read_timeline(call: Call) -> TimelineAnswer:
    return rows.of_timeline(await timeline.read(call.connection, call.name), datetime.now(UTC))


async def read_task_attempt(call: Call) -> TaskAttemptDetail:
    info = call.request.match_info
    attempt, index, task_attempt = (int(info[part]) for part in ("attempt", "index", "task_attempt"))
    found, lines = await timeline.find_task_attempt(
        call.connection, call.name, attempt, info["role"], index, task_attempt, LAST_LINES
    )
    return rows.of_task_attempt(found, attempt, lines)
