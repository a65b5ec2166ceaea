"""The controllers to compare: Windlass, the Kubernetes Job controller, any other controller, or the minimal writer."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

import kubernetes_api
import programs
from cluster_load import processes, workloads
from cluster_load.processes import Measured
from cluster_load.workloads import Pods
from windlass.kubeapi.resources import JOBS, Resource

USER: Final = "controller"
"""Name of the user whose requests are counted."""

WARM_UP_TASKS: Final = 2
FIRST_WITH_INDEXED_JOBS: Final = 21


class Load(NamedTuple):
    """The properties of each job."""

    tasks: int
    pods: Pods
    runs_for: str = "0"


Start = Callable[[kubernetes_api.Api, Load, Path], AbstractContextManager[Measured | None]]


class Contender(NamedTuple):
    name: str
    resource: Resource
    start: Start

    def body(self, name: str, load: Load, version: str) -> bytes:
        if self.resource == JOBS:
            is_indexed = int(version.split(".")[1]) >= FIRST_WITH_INDEXED_JOBS
            return workloads.job(name, load.tasks, is_indexed=is_indexed, runs_for=load.runs_for)
        return workloads.framework(name, load.tasks, pods=load.pods, runs_for=load.runs_for)


def kubeconfig_of(api: kubernetes_api.Api) -> Path:
    """Return the kubeconfig of the counted user; on an existing cluster, that of its user."""
    return api.users[USER].kubeconfig if api.users else api.kubeconfig


@contextlib.contextmanager
def _windlass(api: kubernetes_api.Api, load: Load, folder: Path) -> Iterator[Measured]:
    del load
    arguments = ["--kubeconfig", str(kubeconfig_of(api)), "--metrics-address", "127.0.0.1:0"]
    command = processes.python("windlass.cli.main", "controller", *arguments, "--log-level", "warning")
    with processes.running(command, folder / "controller.log") as program:
        yield program


@contextlib.contextmanager
def _floor(api: kubernetes_api.Api, load: Load, folder: Path) -> Iterator[Measured]:
    tasks = [f"--tasks={number}" for number in {load.tasks, WARM_UP_TASKS}]
    arguments = ["--kubeconfig", str(kubeconfig_of(api)), *tasks, "--pods", load.pods]
    bench = Path(__file__).parents[1]
    environment = {"PYTHONPATH": f"{bench}:{bench.parent / 'tests' / 'support'}"}
    command = processes.python("cluster_load.floor", *arguments)
    with processes.running(command, folder / "controller.log", environment) as program:
        yield program


@contextlib.contextmanager
def _job_controller(api: kubernetes_api.Api, load: Load, folder: Path) -> Iterator[Measured | None]:
    del load, folder
    if api.binaries is None:
        yield None  # part of the cluster, so that it cannot be measured from here
        return
    with kubernetes_api.controllers(api, USER, "job", programs.free_ports(1)[0]) as manager:
        yield Measured(manager.process.pid)


def other(command: str) -> Contender:
    @contextlib.contextmanager
    def start(api: kubernetes_api.Api, load: Load, folder: Path) -> Iterator[Measured]:
        del load
        environment = {"KUBECONFIG": str(kubeconfig_of(api))}
        with processes.running(
            ["/bin/sh", "-c", f"exec {command}"], folder / "controller.log", environment
        ) as program:
            yield program

    return Contender(command, workloads.FRAMEWORKS, start)


WINDLASS: Final = Contender("windlass", workloads.FRAMEWORKS, _windlass)
FLOOR: Final = Contender("floor", workloads.FRAMEWORKS, _floor)
JOB_CONTROLLER: Final = Contender("Job controller", JOBS, _job_controller)
