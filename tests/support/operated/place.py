"""A namespace of a test's own, and what a user does there and sees there."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fake_kubelet import lifecycle

from conformance.client import Answer, Client, Json
from conformance.waiting import wait_for
from windlass.model import names

if TYPE_CHECKING:
    from operated.world import World

T = TypeVar("T")

GROUP = names.CONTROLLER_GROUP


class Namespace:
    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name

    def wait_for(self, what: str, look: Callable[[], T | None]) -> T:
        return wait_for(what, look)

    def path(self, plural: str, *rest: str) -> str:
        return "/".join([f"/api/v1/namespaces/{self.name}/{plural}", *rest])

    def framework_path(self, name: str = "", group: str = GROUP) -> str:
        base = f"/apis/{group}/{names.VERSION}/namespaces/{self.name}/{names.PLURAL}"
        return f"{base}/{name}" if name else base

    # What a user does

    def submit(self, framework: Json) -> Json:
        group = names.group_of(framework["apiVersion"])
        return self.client.post(self.framework_path(group=group), framework).expect(201).body

    def change(self, name: str, spec: Json, group: str = GROUP) -> None:
        """A merge patch of the spec."""
        self.client.patch(self.framework_path(name, group), {"spec": spec}).expect(200)

    def scale(self, name: str, role: int, tasks: int) -> None:
        patch = [{"op": "replace", "path": f"/spec/taskRoles/{role}/taskNumber", "value": tasks}]
        self.client.patch(self.framework_path(name), patch, kind="json").expect(200)

    def delete(self, name: str, propagation: str = "", group: str = GROUP) -> None:
        options = {"propagationPolicy": propagation} if propagation else {}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        self.client.delete(self.framework_path(name, group), body).expect(200)

    # What a user sees

    def framework(self, name: str, group: str = GROUP) -> Json:
        return self.client.get(self.framework_path(name, group)).expect(200).body

    def pods(self, framework: str = "") -> dict[str, Json]:
        """By name."""
        return self._listed("pods", framework)

    def config_maps(self, framework: str = "") -> dict[str, Json]:
        found = self._listed("configmaps", framework)
        return {name: body for name, body in found.items() if name != "kube-root-ca.crt"}

    def _listed(self, plural: str, framework: str) -> dict[str, Json]:
        selector = {"labelSelector": f"{names.FRAMEWORK_NAME}={framework}"} if framework else {}
        items = self.client.get(self.path(plural), None, **selector).expect(200).body["items"]
        return {item["metadata"]["name"]: item for item in items}

    def events(self, uid: str) -> list[Json]:
        items = self.client.get(self.path("events")).expect(200).body["items"]
        return [item for item in items if item["involvedObject"].get("uid") == uid]

    # Waiting

    def wait(
        self, name: str, is_true: Callable[[Json], Any], what: str = "what it waits for", group: str = GROUP
    ) -> Json:
        """The Framework, once that is true of it."""
        path = self.framework_path(name, group)
        last: list[Answer] = []

        def look() -> Json | None:
            last[:] = [self.client.get(path)]
            body = last[0].body
            return body if last[0].code == 200 and is_true(body) else None

        try:
            return self.wait_for(f"{name}: {what}", look)
        except AssertionError as error:
            found = last[0].raw.decode(errors="replace") if last else "nothing"
            raise AssertionError(f"{error}; it is\n{found}") from error

    def wait_for_state(self, name: str, state: str, group: str = GROUP) -> Json:
        return self.wait(name, lambda body: state_of(body) == state, f"state {state}", group)

    def wait_for_running(self, name: str, tasks: int, group: str = GROUP) -> Json:
        return self.wait(
            name, lambda body: summary_of(body).get("running") == tasks, f"{tasks} running tasks", group
        )

    def wait_for_completed(self, name: str, group: str = GROUP) -> Json:
        return self.wait_for_state(name, "Completed", group)

    def wait_until_gone(self, name: str, group: str = GROUP) -> None:
        path = self.framework_path(name, group)
        self.wait_for(f"{name} to be gone", lambda: self.client.get(path).code == 404)

    def wait_for_condition(self, name: str, kind: str, group: str = GROUP) -> Json:
        """The condition, once it is true."""
        body = self.wait(name, lambda body: condition_of(body, kind), f"condition {kind}", group)
        return condition_of(body, kind)

    def wait_for_events(self, uid: str, *reasons: str) -> list[Json]:
        def look() -> list[Json] | None:
            found = self.events(uid)
            return found if {event["reason"] for event in found} >= set(reasons) else None

        return self.wait_for(f"events {reasons} on {uid}", look)


class Place(Namespace):
    """A namespace in a World, with a kubelet that simulates the behaviour of pods that a test sets."""

    def __init__(self, client: Client, name: str, world: "World") -> None:
        super().__init__(client, name)
        self.world = world

    def wait_for(self, what: str, look: Callable[[], T | None]) -> T:
        return self.world.wait_for(what, look)

    def end_pod(self, name: str, exit_code: int = 0) -> None:
        """One that runs for ever comes to its end."""
        behaviour = lifecycle.annotations(runs_for=0, exit_code=exit_code)
        self.client.patch(self.path("pods", name), {"metadata": {"annotations": behaviour}}).expect(200)


def status_of(framework: Json) -> Json:
    return framework.get("status") or {}


def state_of(framework: Json) -> str:
    return str(status_of(framework).get("state", ""))


def summary_of(framework: Json) -> Json:
    return status_of(framework).get("summary") or {}


def condition_of(framework: Json, kind: str) -> Json:
    """The condition if it is true; otherwise None."""
    conditions = status_of(framework).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)


def completion_of(framework: Json) -> Json:
    """Return the completion status of the current attempt."""
    return status_of(framework)["attemptStatus"]["completionStatus"]


def tasks_of(framework: Json, role: str = "worker") -> list[Json]:
    roles = status_of(framework)["attemptStatus"]["taskRoleStatuses"] or []
    return next((each["taskStatuses"] for each in roles if each["name"] == role), [])


def retries_of(framework: Json) -> int:
    return int(status_of(framework)["retryPolicyStatus"]["totalRetriedCount"])
