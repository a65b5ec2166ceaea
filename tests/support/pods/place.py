"""A namespace of a test's own, and the pods in it: created, watched, asked and deleted as a user does it."""

import contextlib
import functools
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pods import specs, streaming
from pods.seen import Seen
from pods.streaming import Executed

from conformance.client import Answer, Client, Json
from conformance.objects import path as path_of
from conformance.waiting import wait_for

PLURALS: Final = {
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Service": "services",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "Job": "jobs",
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
}
SECONDS: Final = 180.0
"""Timeout of all waits. A real kubelet updates the files of a volume about once a minute."""

BRIEFLY: Final = 3.0
"""Time for which a test checks that something does not happen."""


NEVER_LOST_SINCE: Final = 22
"""Kubelets of earlier releases may remove a container of a pod that is deleted before they have told how it ended."""


class LostEndingError(Exception):
    """The exit code of a container is lost."""


def again_if_lost(test: "Callable[[Place], None]") -> "Callable[[Place], None]":
    """With another pod, where a kubelet has not told how the first one ended. Newer ones always do."""

    @functools.wraps(test)
    def tried(place: Place) -> None:
        for _ in range(4):
            try:
                return test(place)
            except LostEndingError:
                continue
        return test(place)

    return tried


class Pod:
    def __init__(self, place: "Place", name: str) -> None:
        self.place = place
        self.name = name
        self.path = place.path("pods", name)

    # What it is

    def seen(self) -> Seen:
        return Seen(self.place.client.get(self.path).expect(200).body)

    def wait(self, what: str, is_true: Callable[[Seen], object], seconds: float = SECONDS) -> Seen:
        last: list[Seen] = []

        def look() -> Seen | None:
            last[:] = [self.seen()]
            if last[0].has_lost_an_ending and self.place.may_lose_endings:
                raise LostEndingError(self.description(last[0] if last else None))
            return last[0] if is_true(last[0]) else None

        try:
            return wait_for(f"pod {self.name} {what}", look, seconds)
        except AssertionError as error:
            message = f"{error}\n{self.description(last[0] if last else None)}"
            if last and last[0].has_ended_with_running_containers and self.place.may_lose_endings:
                raise LostEndingError(message) from None
            raise AssertionError(message) from None

    def description(self, seen: Seen | None) -> str:
        """Return the metadata and status of the pod, and its events."""
        fields = {"metadata": seen.body["metadata"], "status": seen.status} if seen else "it was never seen"
        events = (f"{each['reason']}: {each.get('message')}" for each in self.events())
        return "\n".join([json.dumps(fields, indent=1), *events])

    def ended(self) -> Seen:
        return self.wait("to end", lambda seen: seen.is_over)

    def running(self) -> Seen:
        """All its containers at once; those of a pod that ended are not waited for."""
        seen = self.wait("to run", lambda seen: seen.is_over or seen.all_run())
        assert not seen.is_over, f"it has ended already: {self.description(seen)}"
        return seen

    def ready(self) -> Seen:
        return self.wait("to be ready", lambda seen: seen.is_ready)

    def waiting(self, reason: str, container: str = "main") -> Seen:
        return self.wait(f"to wait with {reason}", lambda seen: seen.waits_for(container) == reason)

    def stays(self, what: str, is_true: Callable[[Seen], object], seconds: float = BRIEFLY) -> None:
        """Nothing tells that something will never happen; this looks often for a little while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            seen = self.seen()
            assert is_true(seen), f"pod {self.name} did not stay {what}: {self.description(seen)}"
            time.sleep(0.1)

    # What it says

    def log(self, **params: str) -> str:
        return self.read_log(**params).expect(200).raw.decode(errors="replace")

    def read_log(self, **params: str) -> Answer:
        return self.place.client.get(f"{self.path}/log", headers={"Accept": "*/*"}, **params)

    def says(self, text: str, **params: str) -> str:
        """Its log, as soon as that holds the text."""

        def look() -> str | None:
            answer = self.read_log(**params)
            found = answer.raw.decode(errors="replace")
            return found if answer.code == 200 and text in found else None

        try:
            return wait_for(f"{text!r} in the log of pod {self.name}", look, SECONDS)
        except AssertionError as error:
            log = self.read_log(**params).raw[-2000:]
            raise AssertionError(f"{error}\n{self.description(self.seen())}\n{log!r}") from None

    def output(self) -> list[str]:
        """The lines that it wrote until its end, which was a success."""
        ended = self.ended()
        assert ended.phase == "Succeeded", f"{self.description(ended)}\n{self.read_log().raw[-2000:]!r}"
        return self.log().splitlines()

    def events(self, reason: str = "") -> list[Json]:
        about = f"involvedObject.name={self.name}"
        answer = self.place.client.get(self.place.path("events"), fieldSelector=about).expect(200)
        return [each for each in answer.body["items"] if not reason or each["reason"] == reason]

    def event(self, reason: str, part: str = "") -> Json:
        """The event with that reason and these words, as soon as there is one."""

        def look() -> Json:
            return next((each for each in self.events(reason) if part in each.get("message", "")), None)

        try:
            return wait_for(f"an event {reason} {part!r} of pod {self.name}", look, SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.description(self.seen())}") from None

    # What is done to it

    def execute(self, *command: str, **options: Any) -> Executed:
        return streaming.execute(self.place.client.access, f"{self.path}/exec", command, **options)

    def sh(self, script: str, **options: Any) -> Executed:
        return self.execute("sh", "-c", script, **options)

    def delete(self, grace: int | None = None) -> Answer:
        return self.place.client.delete(self.path, None if grace is None else {"gracePeriodSeconds": grace})

    def patch(self, body: Json) -> Answer:
        return self.place.client.patch(self.path, body).expect(200)

    def wait_until_gone(self) -> None:
        def is_gone() -> bool:
            return self.place.client.get(self.path).code == 404

        try:
            wait_for(f"pod {self.name} to be gone", is_gone, SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.description(self.seen())}") from None


class Place:
    """`environment` is set in every container, to identify its processes."""

    def __init__(
        self, client: Client, namespace: str, environment: Mapping[str, str] | None = None, minor: int = 0
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.may_lose_endings = 0 < minor < NEVER_LOST_SINCE
        self._environment = [{"name": name, "value": value} for name, value in (environment or {}).items()]
        self._names = (f"p{number}" for number in itertools.count(1))

    def path(self, plural: str, *rest: str) -> str:
        return path_of(plural, *rest, namespace=self.namespace)

    def start(
        self,
        *containers: str | list[str] | Json,
        name: str = "",
        metadata: Json | None = None,
        **spec: Any,
    ) -> Pod:
        body = specs.pod(name or next(self._names), *containers, metadata=metadata, **spec)
        for each in (*body["spec"]["containers"], *body["spec"].get("initContainers", ())):
            if self._environment:
                each["env"] = [*each.get("env", ()), *self._environment]
        self.create(body)
        return Pod(self, body["metadata"]["name"])

    def create(self, body: Json) -> Json:
        return self.client.post(self.path(PLURALS[body["kind"]]), body).expect(201).body

    def pods(self, **labels: str) -> list[Pod]:
        """Return the pods with these labels by name."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = self.client.get(self.path("pods"), labelSelector=selector).expect(200)
        return [Pod(self, name) for name in sorted(found.names)]

    @contextlib.contextmanager
    def held(self, *containers: str | list[str] | Json, **spec: Any) -> Iterator[Pod]:
        """A pod that is still there when it has been deleted, for as long as the block takes."""
        pod = self.start(*containers, metadata={"finalizers": ["windlass.dev/test"]}, **spec)
        try:
            yield pod
        finally:
            pod.patch({"metadata": {"finalizers": None}})
