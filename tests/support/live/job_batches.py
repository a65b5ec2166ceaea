"""Submit many jobs at once, which tests then check one by one, and count the pods of their tasks.

Concurrent test processes share a batch: the first submits it, the last deletes it.
"""

import contextlib
import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from live.clusters import Cluster
from live.place import Place

from conformance.client import Json


@contextlib.contextmanager
def submitted(
    cluster: Cluster, folders: pytest.TempPathFactory, name: str, frameworks: Iterable[Json]
) -> Iterator[Place]:
    """A namespace with all jobs of the batch."""
    record = _shared_folder(folders) / f"batch-{name}.json"
    with _locked(record) as file:
        known = _read(file)
        namespace = known["namespace"] if known["users"] else _submit_all(cluster, frameworks)
        _write(file, namespace, known["users"] + 1)
    yield Place(cluster.client, namespace)
    with _locked(record) as file:
        users = _read(file)["users"] - 1
        _write(file, namespace, users)
    if not users:
        cluster.client.delete(f"/api/v1/namespaces/{namespace}").expect(200)


def _shared_folder(folders: pytest.TempPathFactory) -> Path:
    """Return a folder that all test processes share."""
    own = folders.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _read(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    known: dict[str, Any] = json.loads(file.read() or '{"namespace": "", "users": 0}')
    return known


def _write(file: IO[str], namespace: str, users: int) -> None:
    file.truncate(0)
    file.write(json.dumps({"namespace": namespace, "users": users}))
    file.flush()


def _submit_all(cluster: Cluster, frameworks: Iterable[Json]) -> str:
    place = cluster.new_place()
    with contextlib.ExitStack() as undo:
        undo.callback(cluster.client.delete, f"/api/v1/namespaces/{place.name}")
        for body in frameworks:
            place.submit(body)
        undo.pop_all()
    return place.name


def wait_for_pods_made(place: Place, framework: str, expected: dict[str, int]) -> None:
    """Return the number of pods of each task, by role and index; tasks not included had at most one.

    The scheduler records an event for each pod that it binds.
    """
    found: list[Counter[str]] = []

    def look() -> bool:
        found[:] = [_pods_made(place, framework)]
        return all(found[0][task] == expected.get(task, 1) for task in {*found[0], *expected})

    try:
        place.wait_for(f"{framework} to have had the pods {expected}", look)
    except AssertionError as error:
        raise AssertionError(f"{error}; it had {dict(found[0])}") from error


def _pods_made(place: Place, framework: str) -> Counter[str]:
    events = place.client.get(place.path("events"), fieldSelector="reason=Scheduled").expect(200)
    pods = {(each["involvedObject"]["name"], each["involvedObject"]["uid"]) for each in events.body["items"]}
    names = [name.rsplit("-", 2) for name, _ in pods]
    return Counter(f"{role}-{index}" for owner, role, index in names if owner == framework)
