"""Windlass as a subject: the job file is converted and submitted as by `windlass submit`, and run by the controller."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from agreement import subjects
from agreement.cases import Case
from agreement.hollow import Hollow, Namespace, is_deleting, is_running
from agreement.player import Submit
from agreement.subjects import ANY, Identity
from windlass.client.connection import Connection
from windlass.client.errors import InvalidJobError, UnreachableError
from windlass.client.submit import sources, submission
from windlass.controller.engine.system_clock import SystemClock
from windlass.controller.operator import Operator
from windlass.kubeapi import requests, resources
from windlass.kubeapi.access import Access
from windlass.kubeapi.errors import AlreadyExistsError, NotFoundError
from windlass.kubeapi.resources import Resource
from windlass.kubeapi.transport import Transport
from windlass.model import names
from windlass.model.base import Json
from windlass.model.framework import parse_indexes
from windlass.model.settings import OFF, Settings
from windlass.model.states import State
from windlass.wire.crd import manifests

RESTING: Final = (State.ATTEMPT_RUNNING, State.COMPLETED)
"""States of a task that does not change until its pod does."""


class WindlassSubject:
    resource = resources.frameworks(names.CONTROLLER_GROUP)

    def __init__(self, case: Case) -> None:
        self._case = case

    def identity(self, pod: Json) -> Identity:
        role, index = pod["metadata"]["labels"][names.TASKROLE_NAME], _task_index(pod)
        match self._case.kind:
            case "Job":
                is_indexed = self._case.job["spec"].get("completionMode") == "Indexed"
                return "job", index if is_indexed else ANY
            case "JobSet":
                return subjects.JobSetSubject().identity(pod)
            case _:
                return role, index

    def is_settled(self, namespace: Namespace, job: Json) -> bool:
        status = job.get("status") or {}
        if any(is_deleting(pod) for pod in namespace.pods):
            return False
        match self.verdict(job):
            case subjects.ACTIVE:
                is_running = status.get("state") == State.ATTEMPT_RUNNING
                return is_running and _is_resting(namespace, job) and not _has_restarted(namespace, job)
            case subjects.SUSPENDED:
                return not namespace.pods
            case _:
                return True

    def verdict(self, job: Json) -> str:
        return subjects.verdict_by(subjects.conditions_of(job), "Complete")


def _task_index(pod: Json) -> int:
    return int(pod["metadata"]["labels"][names.TASK_INDEX])


def _has_restarted(namespace: Namespace, job: Json) -> bool:
    """Return whether containers have restarted so often that a rule ends the attempt."""
    for rule in job["spec"].get("completionPolicies") or ():
        limit, roles = rule.get("minContainerRestartCount"), rule.get("taskRoles")
        indexes = parse_indexes(rule["taskIndexes"]) or () if "taskIndexes" in rule else None
        selected = [
            pod
            for pod in namespace.pods
            if (not roles or pod["metadata"]["labels"][names.TASKROLE_NAME] in roles)
            and (indexes is None or any(_task_index(pod) in each for each in indexes))
        ]
        if limit is not None and subjects.have_restarted(selected, limit):
            return True
    return False


def _is_resting(namespace: Namespace, job: Json) -> bool:
    """Return whether no task changes until a pod does."""
    running = {pod["metadata"]["uid"] for pod in namespace.pods if is_running(pod)}
    roles = {
        role["name"]: role["taskStatuses"] for role in job["status"]["attemptStatus"]["taskRoleStatuses"]
    }
    for role in job["spec"]["taskRoles"]:
        for task in roles[role["name"]]:
            is_unseen = (
                task["state"] == State.ATTEMPT_RUNNING and task["attemptStatus"]["podUID"] not in running
            )
            is_waiting = task["state"] == State.ATTEMPT_CREATION_PENDING and _waits(role, roles)
            if is_unseen or not (is_waiting or task["state"] in RESTING):
                return False
    return True


def _waits(role: Json, tasks: Mapping[str, list[Json]]) -> bool:
    """Return whether pending tasks of the role wait for a place, or for other roles."""
    running = [task for task in tasks[role["name"]] if task["state"] == State.ATTEMPT_RUNNING]
    if role.get("parallelism") and len(running) >= role["parallelism"]:
        return True
    for each in role.get("startAfter") or ():
        reached = (State.COMPLETED,) if each["condition"] == "Succeeded" else RESTING
        others = tasks[each["taskRole"]]
        count = sum(task["state"] in reached for task in others)
        if count < each.get("minTaskCount", len(others)):
            return True
    return False


def submit_converted(hollow: Hollow, case: Case) -> Submit:
    async def submit(namespace: str) -> None:
        documents = b"\n---\n".join(msgspec.json.encode(each) for each in case.objects)
        source = sources.decode(documents, f"{case.name}.yaml", Path(), namespace)
        if source.contents.errors:
            raise InvalidJobError("\n".join(map(str, source.contents.errors)), source.contents.errors)
        while True:
            try:
                await submission.submit(Connection(hollow.transport, namespace), source)
            except UnreachableError:
                await asyncio.sleep(1)
            else:
                return

    return submit


async def _until_served(transport: Transport, definition: Json) -> None:
    spec = definition["spec"]
    resource = Resource(spec["group"], spec["versions"][0]["name"], spec["names"]["plural"])
    async with asyncio.timeout(60):
        while True:
            try:
                await transport.send(requests.list_page(resource))
                return
            except NotFoundError:
                await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def controller(transport: Transport, access: Access) -> AsyncIterator[None]:
    """Define the kinds of Windlass and run its controller."""
    for definition in manifests.definitions(has_records=True):
        body = msgspec.json.encode(definition)
        with contextlib.suppress(AlreadyExistsError):
            await transport.send(requests.create(resources.CUSTOM_RESOURCE_DEFINITIONS, "", body))
        await _until_served(transport, definition)
    stopping = asyncio.Event()
    settings = Settings(leader_election=False, metrics_address=OFF)
    operator = Operator(settings, access, SystemClock(), identity="agreement", snapshot_stream=None)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(operator.run(stopping))  # If it fails, so does the run.
        try:
            yield
        finally:
            stopping.set()
