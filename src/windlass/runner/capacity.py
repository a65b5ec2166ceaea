"""Whether the tasks of a run can ever fit this machine, checked before its cluster starts."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from windlass.client.submit.node_capacity import requests_of, roles_of
from windlass.client.submit.plan import PlannedJob, SubmitPlan
from windlass.k8s import pod_resources
from windlass.k8s.pod_resources import Amounts
from windlass.localcluster.kubelet import machine
from windlass.localcluster.kubelet.gpus import MachineGpus
from windlass.localcluster.scheduler import gpus, nodes
from windlass.localcluster.scheduler.nodes import Machine
from windlass.model.base import Json
from windlass.model.feature_annotations import requested_features
from windlass.model.resources import SHARED_SUFFIX

_MAX_SHARES = 100
"""Maximum number of tasks that share a GPU."""


def problems(plan: SubmitPlan, data: Path, *, node_count: int = 1, fake_gpus: int = 0) -> tuple[str, ...]:
    """Return why jobs of the plan can never run on this machine. `data` is a folder on the disk of the cluster."""
    roles = [role for job in plan.jobs for role in roles_of(job.framework)]
    if plan.companions_only or not any(requests_of(role) for role in roles):
        return ()
    # Drivers may take a second to list the GPUs.
    asks_for_gpus = any(map(gpus.is_gpu, (name for role in roles for name in requests_of(role))))
    inventory = MachineGpus(simulated=fake_gpus).inventory.assignable if asks_for_gpus else ()
    return tuple(_problems(plan.jobs, machine.detect(data, gpus=inventory), node_count))


def _problems(jobs: Sequence[PlannedJob], found: Machine, node_count: int) -> Iterator[str]:
    offered = [_offered(node) for node in nodes.nodes(found, node_count, "")]
    where = (
        "this machine"
        if node_count == 1
        else f"the largest of the {node_count} logical nodes of this machine"
    )
    for job in jobs:
        has_shortage = False
        for role in roles_of(job.framework):
            for shortage in pod_resources.shortages(requests_of(role), offered):
                has_shortage = True
                yield (
                    f"{job.name} cannot run: each task of {role['name']} needs {shortage.needed_text}, {where} has "
                    f"{shortage.offered_text}. Request less, or submit the job to a cluster."
                )
        if (
            not has_shortage
            and requested_features(job.framework["metadata"].get("annotations") or {}).uses_gang
        ):
            yield from _gang_problems(job, offered)


def _gang_problems(job: PlannedJob, offered: Sequence[Amounts]) -> Iterator[str]:
    """Yield the problems of a job whose tasks must all run at the same time, because of a barrier."""
    needed: Amounts = {}
    for role in roles_of(job.framework):
        for name, amount in requests_of(role).items():
            needed[name] = needed.get(name, 0) + amount * _min_running_tasks(job, role)
    everything: Amounts = {}
    for node in offered:
        everything = pod_resources.added(everything, node)
    for shortage in pod_resources.shortages(needed, [everything]):
        if not gpus.is_shared(shortage.resource):
            yield (
                f"{job.name} cannot run: its tasks wait for each other (barrier), and together need "
                f"{shortage.needed_text}, this machine has {shortage.offered_text}. Request less, or submit the job "
                "to a cluster."
            )


def _min_running_tasks(job: PlannedJob, role: Json) -> int:
    """Return the number of tasks that must run at the same time."""
    ranges = job.submission.job.elastic_ranges if job.submission.job is not None else {}
    return ranges[role["name"]].min if role["name"] in ranges else int(role["taskNumber"])


def _offered(node: Json) -> Amounts:
    allocatable = pod_resources.amounts_of(node["status"]["allocatable"])
    shared = {
        f"{name}{SHARED_SUFFIX}": amount * _MAX_SHARES
        for name, amount in allocatable.items()
        if gpus.is_gpu(name)
    }
    return {**allocatable, **shared}
