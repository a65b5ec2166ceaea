"""Plays a case in a namespace of its own and returns what the controller made of it."""

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from agreement import subjects
from agreement.cases import Case, Happening, Outcome, Progress, Step
from agreement.hollow import (
    Hollow,
    Namespace,
    is_ended,
    is_ready,
    is_restarted,
    is_running,
    phase_of,
    restarts_of,
)
from agreement.subjects import Identity, Subject
from windlass.kubeapi import requests
from windlass.kubeapi.resources import NAMESPACES, PODS
from windlass.model.base import Json

LIMIT: Final = 300.0
"""Seconds until a controller must have settled. The Job controller delays the third retry by 40 seconds."""
REMOVAL_LIMIT: Final = 45.0
"""Seconds until the objects of a removed job must be gone. The garbage collector may take half a minute."""
ENDED_CONDITIONS: Final = ("Succeeded", "Failed", "Complete", "Completed")
MAX_ENDING: Final = 60
"""Pods that succeed after the steps, one after the other."""

Submit = Callable[[str], Awaitable[None]]


class NotSettledError(Exception):
    """A controller did not come to rest."""


class Player:
    """`quiet` is the number of seconds without any change after which a settled namespace is believed."""

    def __init__(self, hollow: Hollow, subject: Subject, namespace: str, job: str, quiet: float) -> None:
        self._hollow = hollow
        self._subject = subject
        self._name = namespace
        self._job_key = f"{subject.resource.plural}/{job}"
        self._quiet = quiet
        self._slots: dict[str, Identity] = {}

    @property
    def _namespace(self) -> Namespace:
        return self._hollow.namespace(self._name)

    async def play(self, case: Case, submit: Submit) -> Outcome:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._name}}
        await self._hollow.send(requests.create(NAMESPACES, "", msgspec.json.encode(body)))
        await submit(self._name)
        await self._settle("the start")
        skipped, progress = [], [self._progress()]
        for number, step in enumerate(case.steps):
            # Pods of a finished job may still run, but nothing is decided any more.
            pod = self._pod_of(step) if self.verdict == subjects.ACTIVE else None
            if pod is None:
                skipped.append(number)
            else:
                await self._play(number, step, pod)
            progress.append(self._progress())
        if case.finishes:
            await self._finish(max if case.ends_last_first else min)
        else:
            progress.clear()  # The deadline may be over before a slow machine has settled.
            await self._wait_for_deadline()
        if case.is_removed and self.verdict in (subjects.SUCCEEDED, subjects.FAILED):
            with contextlib.suppress(NotSettledError):
                await self._wait(lambda: self._is_gone and not self._namespace.pods, "removal", REMOVAL_LIMIT)
        return self._outcome(case, tuple(skipped), tuple(progress))

    async def _play(self, number: int, step: Step, pod: Json) -> None:
        await self._hollow.play(pod, step.what, step.code)
        await self._settle(f"step {number}, {step}")
        await self._restart(step, pod["metadata"]["uid"])
        there = self._namespace.objects.get(PODS.plural, {}).get(pod["metadata"]["uid"])
        if step.what is Happening.LOSE_NODE and there:
            await self._hollow.remove_lost(there)
            await self._settle(f"the removal after {step}")

    async def _restart(self, step: Step, uid: str) -> None:
        """Restart the containers of the pod if they have ended and the pod has not. Between their end and their start,
        the controller counts the pod as not ready: so it shows that it has seen both."""
        pod = self._namespace.objects.get(PODS.plural, {}).get(uid)
        if step.what is Happening.EXIT and pod and is_running(pod) and not is_ready(pod):
            await self._hollow.restart(pod, step.code)
            await self._settle(f"the restart after {step}")

    @property
    def verdict(self) -> str:
        job = self._namespace.last_seen.get(self._job_key)
        return self._subject.verdict(job) if job else subjects.ACTIVE

    async def _finish(self, choose: Callable[..., Json]) -> None:
        """Let the running pods succeed one after the other. If they did at once, the job might end before or after the
        success of some of them."""
        for number in range(MAX_ENDING):
            slots = self._identities()
            ending = [pod for pod in self._namespace.pods if is_running(pod) and not is_restarted(pod, 0)]
            if not ending or self.verdict != subjects.ACTIVE:
                return
            chosen = choose(ending, key=lambda pod: slots[pod["metadata"]["uid"]])
            await self._hollow.play(chosen, Happening.EXIT, 0)
            await self._settle(f"the end of pod {number}")

    # Pods

    def _identities(self) -> dict[str, Identity]:
        """Return the role and index of every pod that ever existed. Interchangeable pods take the lowest free index."""
        namespace = self._namespace
        for uid, pod in namespace.pods_seen.items():
            if uid in self._slots:
                continue
            role, index = self._subject.identity(pod)
            if index < 0:
                taken = {
                    self._slots[each["metadata"]["uid"]]
                    for each in namespace.pods
                    if each["metadata"]["uid"] in self._slots and not is_ended(each)
                }
                index = next(number for number in itertools.count(-1 - index) if (role, number) not in taken)
            self._slots[uid] = (role, index)
        return self._slots

    def _pod_of(self, step: Step) -> Json | None:
        slots = self._identities()
        found = [
            pod
            for pod in self._namespace.pods
            if is_running(pod) and slots[pod["metadata"]["uid"]] == (step.role, step.index)
        ]
        return found[0] if found else None

    # Waiting

    async def _settle(self, after: str) -> None:
        await self._wait(self._is_settled, f"rest after {after}")
        self._identities()

    def _is_settled(self) -> bool:
        namespace = self._namespace
        job = namespace.last_seen.get(self._job_key)
        is_quiet = namespace.quiet_seconds >= self._quiet and not namespace.busy
        if job is None or not is_quiet:
            return False
        if self._is_gone:
            return not namespace.pods
        are_pods_started = all(is_running(pod) or is_ended(pod) for pod in namespace.pods)
        return are_pods_started and self._subject.is_settled(namespace, job)

    @property
    def _is_gone(self) -> bool:
        job = self._namespace.last_seen.get(self._job_key)
        there = self._namespace.objects.get(self._subject.resource.plural, {})
        return job is not None and job["metadata"]["uid"] not in there

    async def _wait_for_deadline(self) -> None:
        """Wait for the verdict. Running pods change from time to time: the training operator looks at the deadline
        only when something has changed."""
        end = time.monotonic() + LIMIT
        while self.verdict == subjects.ACTIVE and time.monotonic() < end:
            await asyncio.sleep(2 * self._quiet)
            running = [pod for pod in self._namespace.pods if is_running(pod)]
            await asyncio.gather(*map(self._hollow.touch, running))
        await self._settle("the deadline")

    async def _wait(self, is_reached: Callable[[], bool], what: str, limit: float = LIMIT) -> None:
        namespace = self._namespace
        deadline = time.monotonic() + limit
        while not is_reached():
            if time.monotonic() > deadline:
                raise NotSettledError(f"{self._name}: no {what}; {self._shown()}")
            namespace.change.clear()
            try:
                async with asyncio.timeout(self._quiet / 2):
                    await namespace.change.wait()
            except TimeoutError:
                continue

    def _shown(self) -> str:
        job = self._namespace.last_seen.get(self._job_key, {})
        pods = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in self._namespace.pods}
        return f"{msgspec.json.encode(job.get('status')).decode()}; pods {pods}"

    # The outcome

    def _by_role(self, uids: Iterable[str], weight: Callable[[str], int] = lambda _: 1) -> dict[str, int]:
        slots = self._identities()
        counted: Counter[str] = Counter()
        for uid in uids:
            counted[slots[uid][0]] += weight(uid)
        return dict(sorted((role, count) for role, count in counted.items() if count))

    def _progress(self) -> Progress:
        return Progress(self.verdict, self._by_role(self._namespace.pods_seen))

    def _outcome(self, case: Case, skipped: tuple[int, ...], progress: tuple[Progress, ...]) -> Outcome:
        namespace, slots = self._namespace, self._identities()
        seen, end = namespace.pods_seen, self._end_time()
        return Outcome(
            verdict=self.verdict,
            created=self._by_role(seen),
            left=self._by_role(pod["metadata"]["uid"] for pod in namespace.pods),
            progress=progress,
            running=self._by_role(pod["metadata"]["uid"] for pod in namespace.pods if is_running(pod)),
            late=self._by_role(
                uid for uid, pod in seen.items() if pod["metadata"]["creationTimestamp"] >= end
            ),
            is_removed=case.is_removed and self._is_gone,
            restarts=self._by_role(seen, lambda uid: restarts_of(seen[uid])),
            environment={
                f"{slots[uid][0]}-{slots[uid][1]}": environment(pod, self._name) for uid, pod in seen.items()
            },
            skipped=skipped,
            replaced=self._replaced(),
        )

    def _end_time(self) -> str:
        """Return when the job ended; a later time than any if it has not."""
        job = self._namespace.last_seen.get(self._job_key, {})
        conditions = job.get("status", {}).get("conditions") or ()
        ended = [each for each in conditions if each["status"] == "True" and each["type"] in ENDED_CONDITIONS]
        return min((each["lastTransitionTime"] for each in ended), default="9999")

    def _replaced(self) -> int:
        latest: dict[Identity, Json] = {}
        count = 0
        for uid, pod in self._namespace.pods_seen.items():
            before = latest.get(self._slots[uid])
            count += before is not None and phase_of(before) != "Succeeded"
            latest[self._slots[uid]] = pod
        return count


def environment(pod: Json, namespace: str) -> dict[str, str]:
    """Return the variables of the main container, as it would see them. The namespace is replaced by NAMESPACE."""
    found: dict[str, str] = {}
    for variable in pod["spec"]["containers"][0].get("env") or ():
        value = _value(variable, pod)
        found[variable["name"]] = value.replace(namespace, "NAMESPACE")
    return found


def _value(variable: Json, pod: Json) -> str:
    path = (variable.get("valueFrom") or {}).get("fieldRef", {}).get("fieldPath")
    if path is None:
        return str(variable.get("value", variable.get("valueFrom") or ""))
    if "['" in path:
        kind, key = path.removeprefix("metadata.").removesuffix("']").split("['")
        return str((pod["metadata"].get(kind) or {}).get(key, ""))
    value: Any = pod
    for part in path.split("."):
        value = value.get(part, {})
    return str(value)
