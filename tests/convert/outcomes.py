"""Play a scripted outcome of pods against a converted job: what the controller decides, without a cluster."""

import msgspec
import yaml
from tests.decide.worlds import World

from windlass.convert import kinds
from windlass.convert.conversion import Conversion
from windlass.model.base import Json
from windlass.model.framework import Framework
from windlass.model.pods import ContainerStatus, PodCondition
from windlass.model.states import COMPLETED
from windlass.render import documents
from windlass.render.framework import builder
from windlass.wire import codec

replace = msgspec.structs.replace


def convert(text: str) -> Conversion:
    """Convert the only object of a file."""
    original = yaml.safe_load(text)
    kind = next(
        each
        for each in kinds.kinds()
        if (each.api_version, each.kind) == (original["apiVersion"], original["kind"])
    )
    return kinds.convert(original, kind)


def rendered(text: str) -> Json:
    """Return the Framework of a file, as `windlass render` prints it."""
    contents = documents.read(text.encode(), "job.yaml")
    assert not contents.errors, [str(error) for error in contents.errors]
    (submission,) = contents.submissions
    assert submission.job is not None
    return builder.framework(submission.job)


def framework(text: str) -> Framework:
    body = rendered(text)
    body["metadata"] |= {"namespace": "default", "uid": "framework-0"}
    return codec.decode_framework(msgspec.json.encode(body))


class Outcome(msgspec.Struct, frozen=True):
    verdict: str
    """Succeeded, Failed, or Active."""
    pods: dict[str, int]
    """Number of created pods by role."""
    restarts: int
    """Number of restarts of the whole job."""
    why: str
    """What completed the job; empty while it is active."""


class Play:
    """A converted job whose pods end as a script says.

    A step is `exit CODE TASK`, `restart TASK` (of the container, in the same pod), `disrupt TASK` (the pod fails with
    the condition DisruptionTarget), `delete TASK`, or `ready TASK`. If no pod of the task
    runs, the delay before its retry is skipped.
    """

    def __init__(self, text: str) -> None:
        self.world = World(framework(text))
        self._settle()

    def run(self, *steps: str) -> Outcome:
        for step in steps:
            action, *arguments, task = step.split()
            role, _, index = task.rpartition("-")
            self._wait_for(role, int(index))
            self._act(action, arguments, role, int(index))
            self._settle()
        return self.outcome()

    def outcome(self) -> Outcome:
        world = self.world
        ended = world.status.attempt_status.completion_status
        is_over = world.state is COMPLETED
        verdict = "Active"
        if is_over and ended is not None:
            verdict = "Failed" if ended.type.is_failed else "Succeeded"
        created: dict[str, int] = {}
        for action in world.actions:
            if type(action).__name__ == "CreatePod":
                created[action.role] = created.get(action.role, 0) + 1  # type: ignore[union-attr]
        why = ended.trigger.message if is_over and ended is not None and ended.trigger is not None else ""
        return Outcome(verdict, created, world.status.retry_policy_status.total_retried_count, why)

    def _settle(self) -> None:
        self.world.settle()
        self.world.run_pods()
        self.world.settle()

    def _wait_for(self, role: str, index: int) -> None:
        for _ in range(20):
            if self.world.has_pod(role, index) and self.world.pod(role, index).status.phase == "Running":
                return
            self.world.wake()
            self._settle()
        raise AssertionError(f"{role}-{index} gets no running pod: {self.outcome()}")

    def _act(self, action: str, arguments: list[str], role: str, index: int) -> None:
        world = self.world
        match action:
            case "exit" if arguments == ["0"]:
                world.succeed(role, index)
            case "exit":
                world.fail(role, index, int(arguments[0]))
            case "restart":
                pod = world.pod(role, index)
                container = ContainerStatus(name="main", restart_count=pod.restart_count + 1)
                self._show(role, index, container_statuses=(container,))
            case "disrupt":
                world.fail(role, index, 143)
                self._show(role, index, conditions=(PodCondition("DisruptionTarget", "True"),))
            case "ready":
                self._show(role, index, conditions=(PodCondition("Ready", "True"),))
            case "delete":
                world.remove_pod(role, index)
            case _:
                raise AssertionError(f"unknown step: {action}")

    def _show(self, role: str, index: int, **status: object) -> None:
        pod = self.world.pod(role, index)
        self.world.pods[pod.name] = replace(pod, status=replace(pod.status, **status))


def play(text: str, *steps: str) -> Outcome:
    return Play(text).run(*steps)
