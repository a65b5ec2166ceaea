"""Decides which records of attempts are deleted: those beyond the limits of a job and of a namespace, and old ones."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from windlass.model.settings import History


class RecordEntry(msgspec.Struct, frozen=True):
    """The fields of a record that retention uses."""

    namespace: str
    name: str
    uid: str
    job: str
    created: datetime
    size: int


def _age_order(entry: RecordEntry) -> tuple[datetime, int, str]:
    """Return the sort key, oldest first. Names end with the attempt: in the same second, `x-10` is newer than `x-9`."""
    return entry.created, len(entry.name), entry.name


def expired(entries: Iterable[RecordEntry], limits: History, now: datetime) -> list[RecordEntry]:
    """Return the records to delete, oldest first."""
    counts: dict[tuple[str, str], int] = {}
    sizes: dict[str, int] = {}
    full: set[str] = set()
    """Namespaces whose size limit is exceeded: all older records in them are deleted."""
    found = []
    for entry in sorted(entries, key=_age_order, reverse=True):
        job = entry.namespace, entry.job
        is_old = now - entry.created > timedelta(seconds=limits.retain_sec)
        is_surplus = counts.get(job, 0) >= limits.records_per_job
        if is_old or is_surplus:
            found.append(entry)
            continue
        size = sizes.get(entry.namespace, 0) + entry.size
        if entry.namespace in full or size > limits.bytes_per_namespace:
            full.add(entry.namespace)
            found.append(entry)
            continue
        counts[job] = counts.get(job, 0) + 1
        sizes[entry.namespace] = size
    return found[::-1]
