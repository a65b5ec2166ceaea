"""Services, ports and Gangs of Frameworks with discovery or a barrier."""

import json
from collections.abc import Sequence

import builders
import msgspec
import pytest
from builders import NOW
from tests.controller.benches import Bench

from windlass.controller.engine.actions import ChoosePorts
from windlass.controller.engine.api import (
    AlreadyExistsError,
    ConflictError,
    RefusedError,
    RequestError,
    UnknownOutcomeError,
)
from windlass.decide.types import ReasonKind
from windlass.model import names
from windlass.model.base import Json
from windlass.model.failures import ApiFailure
from windlass.model.framework import Framework, RetryPolicySpec
from windlass.model.status import ConditionType

NAMES = {names.RUNTIME_ANNOTATION: "tensorflow"}
BARRIER = {names.BARRIER_ANNOTATION: "true"}


def job(annotations: dict[str, str], tasks: int = 2) -> Framework:
    """A task that fails is tried again, and does not end the attempt."""
    retry = RetryPolicySpec(max_retry_count=-1)
    return builders.framework(
        "job", builders.role("worker", tasks, min_failed=-1, retry=retry), annotations=annotations
    )


def last_of(bench: Bench, kind: str) -> Json:
    return [manifest for manifest in bench.api.manifests if manifest["kind"] == kind][-1]


def made(bench: Bench) -> list[str]:
    return [manifest["kind"] for manifest in bench.api.manifests]


# The Service


def test_service_is_created_before_the_config_map() -> None:
    bench = Bench(job(NAMES))
    assert bench.run() == ["create Service"]
    assert bench.run() == ["create ConfigMap"]
    service = last_of(bench, "Service")
    assert service["metadata"]["name"] == "job"
    assert service["spec"]["clusterIP"] == "None"


def test_config_map_follows_the_service_without_another_event() -> None:
    bench = Bench(job(NAMES))
    bench.run()
    assert bench.is_due_now


@pytest.mark.parametrize("annotations", [{}, BARRIER], ids=["nothing", "barrier"])
def test_no_service_without_a_request_for_discovery(annotations: dict[str, str]) -> None:
    bench = Bench(job(annotations))
    assert bench.run() == ["create ConfigMap"]


@pytest.mark.parametrize(
    "error",
    [
        AlreadyExistsError("it does not belong to this Framework"),
        RefusedError(ApiFailure(403, "Forbidden", "exceeded quota: services")),
        UnknownOutcomeError("timed out"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failed_service_is_retried_with_backoff(error: RequestError) -> None:
    bench = Bench(job(NAMES))
    bench.api.errors["create Service"] = error
    assert bench.run() == ["create Service"]
    waits = []
    for _ in range(4):
        before = bench.seconds
        run_until("create Service", bench)
        waits.append(bench.seconds - before)
    assert waits[-1] > waits[0] > 0
    bench.api.errors.clear()
    run_until("create Service", bench)
    assert "ConfigMap" not in made(bench), "an attempt without names is not begun"
    assert "create ConfigMap" in bench.run()


def run_until(act: str, bench: Bench) -> None:
    done = bench.run()
    while act not in done:
        done = bench.run_when_due()


def condition(bench: Bench) -> str:
    """Return the message of the NameTaken condition; empty if it is not true."""
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    if framework.status is None:
        return ""
    found = framework.status.condition(ConditionType.NAME_TAKEN)
    return found.message if found is not None and found.is_true else ""


def test_service_of_another_owner_is_reported_until_it_is_deleted() -> None:
    bench = Bench(job(NAMES))
    bench.api.errors["create Service"] = AlreadyExistsError("it does not belong to this Framework")
    run_until("store AttemptCreationPending", bench)
    assert [reason.kind for reason in bench.api.reasons] == [ReasonKind.NAME_TAKEN]
    assert condition(bench) == "Service job already exists: it does not belong to this Framework"
    assert bench.api.failures == [], "only the condition reports it, because the user must act"
    bench.api.errors.clear()
    run_until("create Service", bench)
    for _ in range(3):
        bench.run()
        bench.show()
    assert condition(bench) == ""
    assert bench.cache.observe(bench.key, NOW, 0.0).pods


def test_freed_name_is_not_reported_while_something_else_is_pending() -> None:
    bench = Bench(job(NAMES))
    bench.api.errors["create Service"] = AlreadyExistsError("it does not belong to this Framework")
    run_until("store AttemptCreationPending", bench)
    assert condition(bench)
    quota = RefusedError(ApiFailure(403, "Forbidden", "exceeded quota: configmaps"))
    bench.api.errors = {"create ConfigMap": quota}
    run_until("create Service", bench)
    run_until("store AttemptCreationPending", bench)
    assert condition(bench) == ""


def test_rejected_service_is_reported() -> None:
    bench = Bench(job(NAMES))
    bench.api.errors["create Service"] = RefusedError(ApiFailure(403, "Forbidden", "no"))
    bench.run()
    assert bench.api.failures == ["create the Service job: RefusedError"]
    assert condition(bench) == ""


# The ports, where pods share one network


def started(annotations: dict[str, str], choose_ports: ChoosePorts | None = None, tasks: int = 2) -> Bench:
    """All pods are created, and the watch has shown them."""
    bench = Bench(job(annotations, tasks), "windlass:test", choose_ports)
    for _ in range(4):
        bench.run()
        bench.show()
    assert len(bench.cache.observe(bench.key, NOW, 0.0).pods) == tasks
    bench.wait(1)
    bench.run()
    return bench


def workers_told(bench: Bench) -> list[str]:
    """Return the peer addresses of the last created pod."""
    (container,) = last_of(bench, "Pod")["spec"]["containers"]
    variables = {variable["name"]: variable.get("value", "") for variable in container["env"]}
    found: list[str] = json.loads(variables["TF_CONFIG"])["cluster"]["worker"]
    return found


def written(bench: Bench) -> str | None:
    ports: str | None = last_of(bench, "ConfigMap")["metadata"]["annotations"].get(names.PORTS_ANNOTATION)
    return ports


def test_ports_are_stored_in_the_config_map_and_passed_to_pods() -> None:
    asked: list[str] = []

    def choose(framework: Framework) -> dict[str, int]:
        asked.append(framework.name)
        return {"worker": 31000}

    bench = started(NAMES, choose)
    assert json.loads(written(bench) or "") == {"worker": 31000}
    assert workers_told(bench) == ["127.0.0.1:31000", "127.0.0.1:31001"]
    assert asked == ["job"], "once for the attempt, however many pods it has"


def test_gang_contains_the_ports_of_its_tasks() -> None:
    bench = started({**NAMES, **BARRIER}, lambda _: {"worker": 31000})
    give_addresses(bench, "127.1.0.5", "127.1.0.6")
    bench.run()
    [role] = last_of(bench, "Gang")["spec"]["roles"]
    assert [member["port"] for member in role["members"]] == [31000, 31001]


def test_missing_free_ports_are_reported_and_retried() -> None:
    def choose(_framework: Framework) -> dict[str, int]:
        raise RequestError("no 9 free ports in a row were found on this machine")

    bench = Bench(job(NAMES), "windlass:test", choose)
    bench.run()
    bench.run()
    assert bench.api.failures == ["create the ConfigMap job-attempt: RequestError"]
    bench.wait(60)
    bench.run()
    assert len(bench.api.failures) > 1


@pytest.mark.parametrize("choose_ports", [None, lambda _: None], ids=["no chooser", "none for this task"])
def test_without_chosen_ports_tasks_use_names(choose_ports: ChoosePorts | None) -> None:
    bench = started(NAMES, choose_ports)
    assert written(bench) is None
    assert workers_told(bench) == ["worker-0.job:2222", "worker-1.job:2222"]


def test_new_leader_uses_the_chosen_ports() -> None:
    first = Bench(job(NAMES), "", lambda _: {"worker": 31000})
    for _ in range(2):
        first.run()
    framework = first.cache.framework(first.key)
    config_map = first.cache.observe(first.key, NOW, 0.0).config_map
    assert framework is not None
    assert config_map is not None

    def choose(_: Framework) -> dict[str, int]:
        raise AssertionError("the attempt has its ports")

    second = Bench(framework, "", choose)
    second.api.version = 500
    second.cache.put(config_map)
    second.run()
    assert workers_told(second) == ["127.0.0.1:31000", "127.0.0.1:31001"]


# The Gang


def give_addresses(bench: Bench, *addresses: str) -> None:
    """To worker-0, worker-1, …"""
    for index, address in enumerate(addresses):
        bench.set_pod(f"job-worker-{index}", phase="Running", pod_ip=address)


def members(gang: Json) -> list[tuple[str, str]]:
    (workers,) = gang["spec"]["roles"]
    return [(member["podUID"], member["ip"]) for member in workers["members"]]


def told(bench: Bench) -> list[str]:
    """Run passes until deferred statuses are stored, and return the calls."""
    done = bench.run()
    bench.wait(1)
    return [*done, *bench.run()]


def test_gang_is_published_after_addresses_are_stored() -> None:
    bench = started(BARRIER)
    assert bench.run() == []
    give_addresses(bench, "10.0.0.5", "10.0.0.6")
    assert bench.run() == ["store AttemptRunning", "publish Gang"], "at once"
    gang = last_of(bench, "Gang")
    assert gang["metadata"]["name"] == "job-cm-1"
    assert gang["spec"]["attemptInstanceUID"] == "0_cm-1"
    assert members(gang) == [("uid-job-worker-0", "10.0.0.5"), ("uid-job-worker-1", "10.0.0.6")]


def test_gang_is_not_published_before_all_tasks_have_addresses() -> None:
    bench = started(BARRIER)
    give_addresses(bench, "10.0.0.5")
    assert [done for _ in range(3) for done in told(bench)] == ["store AttemptRunning"]
    give_addresses(bench, "10.0.0.5", "10.0.0.6")
    assert told(bench) == ["store AttemptRunning", "publish Gang"]


def test_addresses_are_not_published_without_a_store() -> None:
    bench = started(BARRIER)
    give_addresses(bench, "10.0.0.5", "10.0.0.6")
    bench.api.errors["store AttemptRunning"] = ConflictError()
    assert bench.run() == ["store AttemptRunning"]
    bench.api.errors.clear()
    assert bench.run_when_due() == ["store AttemptRunning", "publish Gang"]


def test_unchanged_gang_is_not_published_again() -> None:
    bench = started(BARRIER)
    give_addresses(bench, "10.0.0.5", "10.0.0.6")
    bench.run()
    bench.show()
    assert [told(bench) for _ in range(3)] == [[], [], []]
    bench.set_pod("job-worker-0", phase="Succeeded")
    assert told(bench) == ["store AttemptRunning"], "who has ended was there"
    assert made(bench).count("Gang") == 1


@pytest.mark.parametrize(
    "error", [UnknownOutcomeError("timed out"), RefusedError(ApiFailure(403, "Forbidden", "no"))], ids=str
)
def test_failed_gang_is_published_later(error: RequestError) -> None:
    bench = started(BARRIER)
    give_addresses(bench, "10.0.0.5", "10.0.0.6")
    bench.api.errors["publish Gang"] = error
    assert bench.run() == ["store AttemptRunning", "publish Gang"]
    assert not bench.is_due_now, "not at once"
    assert len(bench.api.failures) == 1, "the failure is reported"
    for _ in range(3):
        assert bench.run_when_due() == ["publish Gang"]
    bench.api.errors.clear()
    assert bench.run_when_due() == ["publish Gang"]
    assert told(bench) == []


def test_retried_task_is_published_with_its_new_address() -> None:
    bench = started(BARRIER)
    give_addresses(bench, "10.0.0.5", "10.0.0.6")
    bench.run()
    bench.set_pod("job-worker-1", phase="Failed")
    assert "delete job-worker-1" in bench.run()
    bench.cache.remove(bench.cache.observe(bench.key, NOW, 0.0).pods["job-worker-1"])
    done = [done for _ in range(3) for done in told(bench)]
    assert "create job-worker-1" in done
    assert "publish Gang" not in done, "worker-1 is nowhere"
    bench.show()
    give_addresses(bench, "10.0.0.5", "10.0.0.7")
    assert told(bench)[-1] == "publish Gang"
    found = members(last_of(bench, "Gang"))
    assert found == [("uid-job-worker-0", "10.0.0.5"), ("uid-job-worker-1-2", "10.0.0.7")]


def test_new_leader_publishes_the_gang_again() -> None:
    """The first one may have died between the store and the act."""
    first = started(BARRIER)
    give_addresses(first, "10.0.0.5", "10.0.0.6")
    first.api.errors["publish Gang"] = UnknownOutcomeError()
    first.run()
    second = taken_over(first)
    assert second.run() == ["publish Gang"]
    assert second.run() == []


def taken_over(first: Bench) -> Bench:
    framework, observed = first.cache.framework(first.key), first.cache.observe(first.key, NOW, 0.0)
    assert framework is not None
    assert observed.config_map is not None
    second = Bench(framework)
    second.api.version = 500
    second.cache.put(observed.config_map)
    for pod in observed.pods.values():
        second.cache.put(pod)
    return second


def init_containers(pod: Json) -> Sequence[Json]:
    found: Sequence[Json] = pod["spec"].get("initContainers", ())
    return found


@pytest.mark.parametrize(
    ("annotations", "images"),
    [({}, []), (NAMES, []), (BARRIER, ["windlass:test"]), ({names.BARRIER_ANNOTATION: "own"}, [])],
    ids=["nothing", "names", "barrier", "own"],
)
def test_barrier_uses_the_configured_image(annotations: dict[str, str], images: list[str]) -> None:
    pod = last_of(started(annotations), "Pod")
    assert [container["image"] for container in init_containers(pod)] == images


def test_scaled_gang_is_published_with_its_new_size() -> None:
    bench = started(BARRIER)
    give_addresses(bench, "10.0.0.5", "10.0.0.6")
    bench.run()
    framework = bench.cache.framework(bench.key)
    assert framework is not None
    role = msgspec.structs.replace(framework.spec.task_roles[0], task_number=1)
    bench.api.version += 1
    metadata = msgspec.structs.replace(framework.metadata, resource_version=str(bench.api.version))
    spec = msgspec.structs.replace(framework.spec, task_roles=(role,))
    bench.cache.put_framework(msgspec.structs.replace(framework, metadata=metadata, spec=spec))
    assert "publish Gang" in told(bench)
    assert members(last_of(bench, "Gang")) == [("uid-job-worker-0", "10.0.0.5")]
