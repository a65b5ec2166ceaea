"""Keep all jobs of a namespace, or of all namespaces, up to date by watches, for a display that is shown for hours.

A changed job is decoded only when it is read: the Framework of a large job may change many times per second.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Generic, TypeAlias, TypeVar

import msgspec

from windlass.client import history, lookup, plain_jobs, watch
from windlass.client.connection import Connection
from windlass.client.history import JobHistory
from windlass.k8s.metadata import decode_identity
from windlass.kubeapi.errors import ApiError, ForbiddenError, NotFoundError
from windlass.kubeapi.reflector import Deleted, Listed
from windlass.kubeapi.resources import JOBS, PODS, STATEFUL_SETS, Resource, frameworks
from windlass.model import names
from windlass.model.framework import Framework
from windlass.wire import codec
from windlass.wire.codec import InvalidFramework

Key = tuple[str, str]
"""Namespace and name."""
Found: TypeAlias = Framework | InvalidFramework | JobHistory
"""A job that exists, or one that was deleted and has records."""
T = TypeVar("T")
READ_PAUSE_SECONDS = 1.0
"""Minimum time between two lists of jobs without a Framework or of records, which are not watched one by one."""


class Changes:
    """The keys of jobs that have changed since they were last taken. Many changes of a job count once."""

    def __init__(self, keys: set[Key]) -> None:
        self._keys = keys
        self._is_set = asyncio.Event()
        self._is_set.set()

    def add(self, keys: set[Key]) -> None:
        self._keys |= keys
        self._is_set.set()

    async def take(self) -> set[Key]:
        """Wait for changes, and return their keys. The first call returns all jobs, even if there are none."""
        await self._is_set.wait()
        self._is_set.clear()
        taken, self._keys = self._keys, set()
        return taken


class JobWatch(Generic[T]):
    """The jobs while `run` runs. They are converted by `convert` when they are read, and only the results are kept."""

    def __init__(
        self, connection: Connection, convert: Callable[[Found], T], *, in_all_namespaces: bool = False
    ) -> None:
        self._connection = connection
        self._convert = convert
        self._in_all_namespaces = in_all_namespaces
        self._frameworks: dict[str, dict[Key, msgspec.Raw]] = {group: {} for group in lookup.GROUPS}
        self._plain: dict[Key, Framework] = {}
        self._deleted: dict[Key, JobHistory] = {}
        self._converted: dict[Key, T] = {}
        self._listed: set[str] = set()
        """The API groups that are listed, or cannot be."""
        self._changes: set[Changes] = set()
        self._must_read_plain = asyncio.Event()
        self._must_read_plain.set()
        self._must_read_records = asyncio.Event()
        self._plain_listed = asyncio.Event()
        self._ready = asyncio.Event()
        self._error: Exception | None = None

    # Reading

    def all_keys(self) -> set[Key]:
        return {*self._plain, *self._deleted}.union(*self._frameworks.values())

    def get(self, key: Key) -> T | None:
        """Return the job; None if it does not exist and has no records."""
        if key not in self._converted:
            found = self._find(key)
            if found is None:
                return None
            self._converted[key] = self._convert(found)
        return self._converted[key]

    def _find(self, key: Key) -> Found | None:
        for frameworks_of_group in self._frameworks.values():
            if (body := frameworks_of_group.get(key)) is not None:
                return codec.read_framework(body)
        return self._plain.get(key) or self._deleted.get(key)

    @contextlib.contextmanager
    def changes(self) -> Iterator[Changes]:
        found = Changes(self.all_keys())
        self._changes.add(found)
        try:
            yield found
        finally:
            self._changes.discard(found)

    def notify(self, keys: set[Key]) -> None:
        """Report jobs as changed that have not changed themselves."""
        for each in self._changes:
            each.add(keys)

    @property
    def has_readers(self) -> bool:
        """Whether anybody waits for changes."""
        return bool(self._changes)

    async def ready(self) -> None:
        """Wait until the jobs are listed. Raises ApiError if they cannot be."""
        await self._ready.wait()
        if self._error is not None:
            raise self._error

    # Watching

    async def run(self) -> None:
        """Watch until cancelled. Raises ApiError or ClientError if the user may not list jobs, or if retrying cannot
        help."""
        try:
            async with asyncio.TaskGroup() as group:
                watches = [group.create_task(self._watch(each)) for each in lookup.GROUPS]
                group.create_task(self._require_one(watches))
                group.create_task(self._watch_plain(JOBS, names.JOB_LABEL))
                group.create_task(self._watch_plain(STATEFUL_SETS, names.JOB_LABEL))
                group.create_task(self._watch_plain(PODS, plain_jobs.pod_selector()))
                group.create_task(self._read_plain())
                group.create_task(self._read_records())
        except BaseExceptionGroup as errors:
            error = next(_leaves(errors))
            self._error = error if isinstance(error, Exception) else RuntimeError(str(error))
            raise self._error from errors
        finally:
            self._ready.set()
            self._changed(self.all_keys())

    async def _require_one(self, watches: "list[asyncio.Task[ApiError]]") -> None:
        """Raise an error if no API group can be watched and there are no other jobs."""
        rejections = await asyncio.gather(*watches)
        denied = next((each for each in rejections if isinstance(each, ForbiddenError)), None)
        if denied is not None:
            raise denied
        await self._plain_listed.wait()
        if not self._plain:
            raise lookup.not_installed_error(self._connection)

    async def _watch(self, group: str) -> ApiError:
        """Watch one API group. Return the error if it is not served or may not be listed."""
        jobs = self._frameworks[group]
        events = watch.watch_objects(
            self._connection,
            frameworks(group),
            in_all_namespaces=self._in_all_namespaces,
            is_permanent=self._is_permanent,
        )
        try:
            async with contextlib.aclosing(events) as changes:
                async for change in changes:
                    match change:
                        case Listed(items=items):
                            before = set(jobs)
                            jobs.clear()
                            jobs.update((_key(body), body) for body in items)
                            self._changed(before | set(jobs))
                            self._set_listed(group)
                        case Deleted(object=body):
                            jobs.pop(_key(body), None)
                            self._changed({_key(body)})
                            self._must_read_records.set()
                        case _:
                            jobs[_key(change.object)] = change.object
                            self._changed({_key(change.object)})
        except (NotFoundError, ForbiddenError) as error:
            jobs.clear()
            self._set_listed(group)
            return error
        raise AssertionError("the watch ended without an error")

    def _is_permanent(self, error: ApiError) -> bool:
        # The user waits for the first list, so that its errors are reported at once.
        return not self._ready.is_set() or watch.is_permanent_error(error)

    def _set_listed(self, group: str) -> None:
        self._listed.add(group)
        if len(self._listed) == len(lookup.GROUPS):
            self._must_read_records.set()

    async def _watch_plain(self, resource: Resource, selector: str) -> None:
        events = watch.watch_objects(
            self._connection,
            resource,
            label_selector=selector,
            in_all_namespaces=self._in_all_namespaces,
        )
        with contextlib.suppress(NotFoundError, ForbiddenError):
            async with contextlib.aclosing(events) as changes:
                async for _ in changes:
                    self._must_read_plain.set()

    async def _read_plain(self) -> None:
        while True:
            await self._must_read_plain.wait()
            self._must_read_plain.clear()
            found = await plain_jobs.find_all(self._connection, in_all_namespaces=self._in_all_namespaces)
            before = set(self._plain)
            self._plain = {(each.namespace, each.name): each for each in found}
            self._changed(before | set(self._plain))
            self._plain_listed.set()
            await asyncio.sleep(READ_PAUSE_SECONDS)

    async def _read_records(self) -> None:
        """Read the records of deleted jobs at the start and after each deletion."""
        while True:
            await self._must_read_records.wait()
            self._must_read_records.clear()
            bodies = (body for each in self._frameworks.values() for body in each.values())
            uids = {decode_identity(body).metadata.uid for body in bodies}
            found: tuple[JobHistory, ...] = ()
            with contextlib.suppress(codec.DecodeError):  # a damaged record does not hide the jobs that exist
                found = await history.deleted_jobs(
                    self._connection, uids, in_all_namespaces=self._in_all_namespaces
                )
            before = set(self._deleted)
            self._deleted = {(each.framework.namespace, each.framework.name): each for each in found}
            self._changed(before | set(self._deleted))
            await self._plain_listed.wait()
            self._ready.set()
            await asyncio.sleep(READ_PAUSE_SECONDS)

    def _changed(self, keys: set[Key]) -> None:
        for key in keys:
            self._converted.pop(key, None)
        self.notify(keys)


def _key(body: msgspec.Raw) -> Key:
    found = decode_identity(body).metadata
    return found.namespace, found.name


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
