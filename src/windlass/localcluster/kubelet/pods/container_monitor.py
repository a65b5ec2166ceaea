"""Probes and lifecycle hooks (postStart, preStop) of the containers of one pod."""

import asyncio
import signal
from collections.abc import Sequence
from datetime import timedelta

from windlass.localcluster.kubelet import streaming
from windlass.localcluster.kubelet.lifecycle import restarts, specs
from windlass.localcluster.kubelet.lifecycle.records import Running
from windlass.localcluster.kubelet.pods.container_tracker import ContainerTracker
from windlass.localcluster.kubelet.pods.events import PodEvents
from windlass.localcluster.kubelet.probes import prober, schedule
from windlass.localcluster.kubelet.probes.prober import Prober
from windlass.localcluster.kubelet.probes.schedule import Kill, Outcome
from windlass.model.base import Json

POST_START = "postStart"
PRE_STOP = "preStop"
# Practically unlimited: Kubernetes has no time limit for a postStart hook.
_MAX_POST_START_SECONDS = 24 * 3600.0


class ContainerMonitor:
    def __init__(self, containers: ContainerTracker, events: PodEvents) -> None:
        self._containers = containers
        self._events = events
        self._probing: dict[str, asyncio.Task[None]] = {}
        self._hooks: set[asyncio.Task[None]] = set()

    def begin(self, name: str, run: Running) -> None:
        """Start the probes and the postStart hook of a container that has just started."""
        self.start_probes(name, run, timedelta())
        self.start_hook(name, run, POST_START, _MAX_POST_START_SECONDS)

    def start_probes(self, name: str, run: Running, age: timedelta) -> None:
        self.stop_probes(name)
        container = specs.container(self._containers.pod, name)
        if not any(container.get(field) for field in schedule.SPEC_FIELDS.values()):
            return
        prober = Prober(
            container,
            lambda: self._containers.pod,
            ContainerTarget(self._containers, run.id),
            _ProbeListener(self, self._containers, self._events, name),
            age=age,
        )
        self._probing[name] = asyncio.create_task(prober.run())

    def stop_probes(self, name: str) -> None:
        if name in self._probing:
            self._probing.pop(name).cancel()

    def stop_all(self) -> None:
        """Cancel all probes and hooks."""
        for task in (*self._probing.values(), *self._hooks):
            task.cancel()
        self._probing.clear()

    def kill(self, name: str, run: Running, grace_seconds: int) -> None:
        """Stop a container: preStop hook, SIGTERM, and SIGKILL after the grace period."""
        if not self.start_hook(name, run, PRE_STOP, grace_seconds):
            self._containers.signal(run.id, signal.SIGTERM)
        loop = asyncio.get_running_loop()
        loop.call_later(grace_seconds, self._containers.signal, run.id, signal.SIGKILL)

    def start_hook(self, name: str, run: Running, hook: str, timeout: float) -> bool:
        """Run a hook in the background; return False if the container has no such hook.

        After a preStop hook, the container gets SIGTERM. After a failed postStart hook, it is killed.
        """
        container = specs.container(self._containers.pod, name)
        handler = (container.get("lifecycle") or {}).get(hook)
        if handler is None:
            return False
        task = asyncio.create_task(self._run_hook(name, run, hook, handler, timeout))
        self._hooks.add(task)
        task.add_done_callback(self._hooks.discard)
        return True

    async def _run_hook(self, name: str, run: Running, hook: str, handler: Json, timeout: float) -> None:
        pod = self._containers.pod
        target = ContainerTarget(self._containers, run.id)
        problem = await _perform_hook(handler, specs.container(pod, name), pod, target, timeout)
        if problem and run.id in self._containers.active_run_ids():
            self._events.hook_failed(pod, name, hook, problem)
        if hook == PRE_STOP:
            self._containers.signal(run.id, signal.SIGTERM)
        elif problem:
            self.kill(name, run, specs.grace_seconds(pod))


async def _perform_hook(
    handler: Json, container: Json, pod: Json, target: "ContainerTarget", timeout: float
) -> str:
    """Perform a hook, and return the error message; empty if the hook succeeded."""
    if "sleep" in handler:
        await asyncio.sleep(min(float(handler["sleep"].get("seconds") or 0), timeout))
        return ""
    outcome, output = await prober.perform({**handler, "timeoutSeconds": timeout}, container, pod, target)
    if outcome is Outcome.SUCCESS:
        return ""
    return output.strip() or "exit code is not 0"


class ContainerTarget:
    """A run of a container in which probes and hooks execute commands and open connections."""

    def __init__(self, containers: ContainerTracker, run_id: str) -> None:
        self._containers = containers
        self._run_id = run_id

    async def exec(self, argv: Sequence[str], timeout: float) -> tuple[int, bytes]:
        """Run a command, and return its exit code and the beginning of its output.

        Raises TimeoutError after killing the command, another OSError if it cannot be started.
        """
        supervisor = self._containers.require_supervisor()
        process = streaming.executed_process(supervisor, await supervisor.execute(self._run_id, argv))
        output = b""
        try:
            async with asyncio.timeout(timeout):
                await process.close_stdin()
                async for _, piece in process.output():
                    output = (output + piece)[: prober.MAX_OUTPUT]
                return await process.wait(), output
        except BaseException:
            # E.g. the command timed out, or the probe or hook was cancelled.
            await process.abandon()
            raise

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await streaming.connect(self._containers.require_supervisor(), host, port)


class _ProbeListener:
    def __init__(
        self, monitor: ContainerMonitor, containers: ContainerTracker, events: PodEvents, name: str
    ) -> None:
        self._monitor = monitor
        self._containers = containers
        self._events = events
        self._name = name

    def on_change(self, has_started: bool, is_ready: bool) -> None:
        self._containers.set_health(self._name, has_started=has_started, is_ready=is_ready)

    def on_unhealthy(self, message: str) -> None:
        self._events.unhealthy(self._containers.pod, self._name, message)

    def on_kill(self, kill: Kill) -> None:
        pod, record = self._containers.pod, self._containers.record
        if restarts.is_last_container(pod, record, self._name):
            kill = schedule.decide_kill_of_last_container(pod, self._name)
        self._events.killing(pod, self._name, kill)
        run = record.container(self._name).current
        if isinstance(run, Running):
            self._monitor.kill(self._name, run, kill.grace_seconds)
