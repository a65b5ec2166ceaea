"""Injected faults look like real ones: killed, deleted and delayed tasks.

At every level, because ending a container depends on it.
"""

import asyncio
import contextlib
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pods import machine
from pods.commands import Done, Home, framework, role
from pods.specs import FOREVER, STUBBORN, container, pod

from windlass.kubeapi import access, requests
from windlass.kubeapi.errors import NotFoundError
from windlass.kubeapi.resources import PODS
from windlass.kubeapi.transport import Transport
from windlass.localcluster.cluster import ClusterOptions, LocalCluster

SECONDS = 120
IN_THE_FIRST_ATTEMPT = '[ "$FC_TASK_ATTEMPT_ID" != 0 ] || sleep 100000'


def injected(home: Home, *wanted: str, run: str = STUBBORN, tasks: int = 1, retries: int = 0) -> Done:
    options = [word for each in wanted for word in ("--inject", each)]
    job = framework(role(home.container(run), tasks=tasks, retries=retries))
    return home.run(job, options=("--output", "json", *options))


def lines(done: Done, reason: str) -> list[tuple[str, str]]:
    return [(each["object"], each["message"]) for each in done.json_lines if each.get("reason") == reason]


def moment(done: Done, task: str, reason: str) -> datetime:
    return next(
        datetime.fromisoformat(each["time"])
        for each in done.json_lines
        if (each["object"], each.get("reason")) == (task, reason)
    )


def test_injected_kill_fails_the_task_with_137(anyone: Home) -> None:
    """One of two tasks ends with 137, and all its processes are gone."""
    done = injected(anyone, "kill worker-1", tasks=2).expect(137)
    last = done.json_lines[-1]
    assert (last["code"], last["phrase"]) == (137, "ContainerSigKillReceived")
    assert lines(done, "Injected") == [("worker-1", "injected: kill worker-1")]
    assert not machine.marked(anyone.mark)


def test_injected_exit_code_is_reported(anyone: Home) -> None:
    done = injected(anyone, "exit 3 worker-0 after 100ms").expect(3)
    assert (done.json_lines[-1]["code"], done.json_lines[-1]["phrase"]) == (3, "ContainerUnrecognizedFailed")
    assert lines(done, "Injected") == [("worker-0", "injected: exit 3 worker-0")]
    assert not machine.marked(anyone.mark)


CODES = {
    "success": ("exit 0 worker", 0, "Succeeded"),
    "137": ("exit 137 worker-0", 137, "ContainerSigKillReceived"),
    "255": ("exit 255 worker-0", 255, "ContainerUnrecognizedFailed"),
}


@pytest.mark.parametrize(("wanted", "code", "phrase"), CODES.values(), ids=CODES)
def test_injected_code_decides_the_completion(home: Home, wanted: str, code: int, phrase: str) -> None:
    done = injected(home, wanted).expect(code)
    assert (done.json_lines[-1]["code"], done.json_lines[-1]["phrase"]) == (code, phrase)


@pytest.mark.parametrize("wanted", ["kill worker-0", "delete worker-0"])
def test_only_the_first_attempt_is_killed(home: Home, wanted: str) -> None:
    """The second attempt succeeds."""
    done = injected(home, wanted, run=IN_THE_FIRST_ATTEMPT, retries=1).expect(0)
    assert lines(done, "Injected") == [("worker-0", f"injected: {wanted}")]
    assert len(lines(done, "TaskRetried")) == 1


def test_every_attempt_is_killed(home: Home) -> None:
    done = injected(home, "kill worker-0 every time", retries=2).expect(137)
    assert lines(done, "Injected") == 3 * [("worker-0", "injected: kill worker-0")]


def test_injected_delay_holds_the_start(anyone: Home) -> None:
    """It is scheduled and starts later; the other task does not wait."""
    done = injected(anyone, "delay worker-0 by 3s", run="true", tasks=2).expect(0)
    assert lines(done, "Injected") == [("worker-0", "injected: delay worker-0 by 3s")]
    late = moment(done, "worker-0", "Succeeded") - moment(done, "worker-0", "Injected")
    assert late.total_seconds() >= 2.9


def test_fault_that_never_happened_is_reported(home: Home) -> None:
    done = injected(home, "kill worker-0 after 1h", run="true").expect(0)
    assert lines(done, "Injected") == []
    ((task, message),) = lines(done, "NotInjected")
    assert task == "worker-0"
    assert message.startswith("not injected: kill worker-0 after 1h: ")


REFUSED = {
    "role": ("kill wroker-0", 'unknown role "wroker". Did you mean "worker"?'),
    "index": ("kill worker-1", "unknown task worker-1. The role worker has worker-0"),
    "word": ("kil worker-0", 'Did you mean "kill"?'),
}


@pytest.mark.parametrize(("wanted", "words"), REFUSED.values(), ids=REFUSED)
def test_impossible_fault_is_rejected(home: Home, wanted: str, words: str) -> None:
    done = injected(home, wanted).expect(2)
    assert done.stdout == ""
    assert words in done.stderr
    assert not home.state.exists(), "nothing was started"


# Faults injected into pods of a cluster


class Local:
    def __init__(self, cluster: LocalCluster, transport: Transport) -> None:
        self.cluster = cluster
        self._transport = transport

    async def create(self, body: Any) -> None:
        await self._transport.send(requests.create(PODS, "default", msgspec.json.encode(body)))

    async def pod(self, name: str) -> Any:
        return msgspec.json.decode(await self._transport.send(requests.get(PODS, "default", name)))

    async def phase(self, name: str, phase: str) -> Any:
        while (seen := await self.pod(name))["status"]["phase"] != phase:
            await asyncio.sleep(0.02)
        return seen

    async def delete(self, name: str) -> None:
        """Delete the pod and return when it is gone."""
        await self._transport.send(requests.delete(PODS, "default", name))
        with contextlib.suppress(NotFoundError):
            while await self.pod(name):
                await asyncio.sleep(0.02)

    def end(self, name: str, **options: Any) -> bool:
        return self.cluster.end_container("default", name, **options)


def run(data: Path, test: Any) -> None:
    async def main() -> None:
        cluster = LocalCluster(data, ClusterOptions(is_ephemeral=True))
        async with asyncio.timeout(SECONDS):
            await cluster.start()
            try:
                async with Transport(access.unix(cluster.socket)) as transport:
                    await test(Local(cluster, transport))
            finally:
                await cluster.stop()

    asyncio.run(main())


def codes(seen: Any) -> dict[str, int | None]:
    statuses = seen["status"]["containerStatuses"]
    return {each["name"]: each["state"].get("terminated", {}).get("exitCode") for each in statuses}


def test_only_the_pod_with_the_uid_is_killed(tmp_path: Path) -> None:
    async def test(local: Local) -> None:
        assert not local.end("one")
        await local.create(pod("one", FOREVER))
        seen = await local.phase("one", "Running")
        assert not local.end("one", uid="another")
        assert not local.end("one", container="another")
        assert codes(await local.pod("one")) == {"main": None}
        assert local.end("one", uid=seen["metadata"]["uid"], code=9)
        assert codes(await local.phase("one", "Failed")) == {"main": 9}
        assert not local.end("one")

    run(tmp_path, test)


def test_one_container_or_all_are_killed(tmp_path: Path) -> None:
    async def test(local: Local) -> None:
        await local.create(
            pod("one", container(FOREVER, "a"), container(FOREVER, "b"), container(FOREVER, "c"))
        )
        await local.phase("one", "Running")
        assert local.end("one", container="b", code=4)
        while codes(seen := await local.pod("one"))["b"] is None:
            await asyncio.sleep(0.02)
        assert codes(seen) == {"a": None, "b": 4, "c": None}
        assert local.end("one", code=5)
        assert codes(await local.phase("one", "Failed")) == {"a": 5, "b": 4, "c": 5}

    run(tmp_path, test)


def test_delayed_pod_can_be_deleted(tmp_path: Path) -> None:
    async def test(local: Local) -> None:
        held: list[str] = []

        def hold(body: Any) -> float:
            held.append(body["metadata"]["name"])
            return 100000.0 if body["metadata"]["name"] == "one" else 0.0

        local.cluster.delay_pods(hold)
        for name in ("one", "two"):
            await local.create(pod(name, "true"))
        await local.phase("two", "Succeeded")
        seen = await local.pod("one")
        assert (seen["status"]["phase"], bool(seen["spec"]["nodeName"])) == ("Pending", True)
        await local.delete("one")
        assert sorted(held) == ["one", "two"], "each is asked about once"

    run(tmp_path, test)
