"""The GPUs of this machine, for the options and the notes of a run."""

from collections import Counter
from collections.abc import Iterator, Sequence

from windlass.client.submit.plan import SubmitPlan
from windlass.discovery import ports


def by_resource(simulated: int = 0) -> dict[str, int]:
    """Return the number of GPUs that tasks may use, by resource."""
    from windlass.localcluster.kubelet.gpus import MachineGpus

    return dict(Counter(gpu.resource for gpu in MachineGpus(simulated=simulated).inventory.assignable))


def idle_notes(plan: SubmitPlan, idle: Sequence[str]) -> Iterator[str]:
    """Yield a note if there are idle GPUs and no task requests one. `idle` are their names."""
    roles = [role for job in plan.jobs for role in job.framework["spec"].get("taskRoles") or ()]
    requests_gpus = any(ports.gpus_of((role.get("task") or {}).get("pod") or {}) for role in roles)
    if idle and roles and not plan.companions_only and not requests_gpus:
        number = "an idle GPU" if len(idle) == 1 else f"{len(idle)} idle GPUs"
        yield (
            f"this machine has {number} ({', '.join(dict.fromkeys(idle))}), but the tasks request none and see none: "
            "request one with `--gpus 1`, or `resources: {gpus: 1}` in the job file"
        )
