"""A pod as it was seen at one moment, and the questions that tests have about it."""

import json
from typing import Any

import msgspec

from conformance.client import Json

MAIN = "main"


class Condition(msgspec.Struct, frozen=True):
    status: str
    reason: str = ""
    message: str = ""


class Seen(msgspec.Struct, frozen=True):
    body: Json

    @property
    def status(self) -> Json:
        return self.body.get("status", {})

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", ""))

    @property
    def is_over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def address(self) -> str:
        return str(self.status.get("podIP", ""))

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def node(self) -> str:
        return str(self.body["spec"].get("nodeName", ""))

    @property
    def conditions(self) -> dict[str, Condition]:
        return {
            each["type"]: msgspec.convert(each, Condition) for each in self.status.get("conditions") or ()
        }

    @property
    def is_ready(self) -> bool:
        return self.conditions.get("Ready", Condition("False")).status == "True"

    def container(self, name: str = MAIN) -> dict[str, Any]:
        """The status of a container or init container; empty before it exists."""
        lists = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        every = (each for field in lists for each in self.status.get(field) or ())
        return next((each for each in every if each["name"] == name), {})

    def running(self, name: str = MAIN) -> dict[str, Any] | None:
        return self._state(name, "running")

    def waiting(self, name: str = MAIN) -> dict[str, Any] | None:
        return self._state(name, "waiting")

    def terminated(self, name: str = MAIN) -> dict[str, Any] | None:
        return self._state(name, "terminated")

    @property
    def has_lost_an_ending(self) -> bool:
        """Whether the kubelet has lost the exit code of a container."""
        lasts = (each.get("lastState") or {} for each in self.status.get("containerStatuses") or ())
        return any((last.get("terminated") or {}).get("reason") == "ContainerStatusUnknown" for last in lasts)

    @property
    def has_ended_with_running_containers(self) -> bool:
        """Whether the phase is final although a container is shown as running."""
        states = (each.get("state") or {} for each in self.status.get("containerStatuses") or ())
        return self.phase in ("Failed", "Succeeded") and any("running" in state for state in states)

    def waits_for(self, name: str = MAIN) -> str:
        """The reason why the container waits."""
        return str((self.waiting(name) or {}).get("reason", ""))

    def last(self, name: str = MAIN) -> dict[str, Any]:
        """The end of the previous run."""
        ended: dict[str, Any] = self.container(name).get("lastState", {}).get("terminated") or {}
        return ended

    def exit_code(self, name: str = MAIN) -> int:
        """Return the exit code of a container that has ended."""
        ended = self.terminated(name)
        assert ended is not None, f"container {name} has not ended: {json.dumps(self.body, indent=1)}"
        return int(ended["exitCode"])

    def restarts(self, name: str = MAIN) -> int:
        return int(self.container(name).get("restartCount", 0))

    def all_run(self) -> bool:
        return all(self.running(each["name"]) is not None for each in self.body["spec"]["containers"])

    def _state(self, name: str, kind: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.container(name).get("state", {}).get(kind)
        return found
