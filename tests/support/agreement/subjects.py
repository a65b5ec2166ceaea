"""How each controller shows in its objects which pods are which, that it has seen everything, and its verdict.

A subject is settled when its objects say that the controller has processed every change of its pods and that no
further pod is due. The player also waits until nothing has changed for a while.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from agreement.hollow import (
    Namespace,
    is_deleting,
    is_ended,
    is_ready,
    is_running,
    phase_of,
    restarts_of,
)
from windlass.kubeapi.resources import JOBS, Resource
from windlass.model.base import Json

SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
ACTIVE: Final = "Active"

TFJOBS: Final = Resource("kubeflow.org", "v1", "tfjobs")
PYTORCHJOBS: Final = Resource("kubeflow.org", "v1", "pytorchjobs")
MPIJOBS: Final = Resource("kubeflow.org", "v2beta1", "mpijobs")
JOBSETS: Final = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets")

Identity = tuple[str, int]
"""Role and index. A negative index -1-n: the pods are interchangeable, and take the lowest free index from n on."""

ANY: Final = -1
INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
TRACKED: Final = "batch.kubernetes.io/job-tracking"
DEFAULT_BACKOFF_LIMIT: Final = 6


class Subject(Protocol):
    @property
    def resource(self) -> Resource:
        """The resource of the job."""
        ...

    def identity(self, pod: Json) -> Identity: ...

    def is_settled(self, namespace: Namespace, job: Json) -> bool: ...

    def verdict(self, job: Json) -> str: ...


def conditions_of(body: Json) -> set[str]:
    conditions = body.get("status", {}).get("conditions") or ()
    return {each["type"] for each in conditions if each["status"] == "True"}


def verdict_by(conditions: set[str], succeeded: str) -> str:
    if FAILED in conditions:
        return FAILED
    if succeeded in conditions:
        return SUCCEEDED
    return SUSPENDED if SUSPENDED in conditions else ACTIVE


def _labels(body: Json) -> Json:
    labels: Json = body["metadata"].get("labels") or {}
    return labels


def have_restarted(pods: Iterable[Json], limit: int) -> bool:
    """Return whether the containers of the pods that have not ended have restarted so often that the job fails. With
    the limit 0, it fails with the first restart."""
    return sum(restarts_of(pod) for pod in pods if not is_ended(pod)) >= max(1, limit)


def owned_by(namespace: Namespace, owner: Json) -> list[Json]:
    """Return the existing pods of a controller."""
    uid = owner["metadata"]["uid"]
    return [
        pod
        for pod in namespace.pods
        if any(each["uid"] == uid for each in pod["metadata"].get("ownerReferences") or ())
    ]


# batch/v1 Job


def is_job_settled(namespace: Namespace, job: Json) -> bool:
    """Return whether the Job controller has counted all ended pods of the Job and created all that are due."""
    status, spec = job.get("status", {}), job["spec"]
    pods = owned_by(namespace, job)
    is_tracked = any(
        TRACKED in (pod["metadata"].get("finalizers") or ())
        for pod in pods
        if is_ended(pod) or is_deleting(pod)
    )
    if is_tracked or any(is_deleting(pod) for pod in pods):
        return False
    conditions = conditions_of(job)
    if conditions & {"Complete", "Failed"}:
        return not any(is_running(pod) for pod in pods)
    if conditions & {"FailureTarget", "SuccessCriteriaMet"} or any(
        (status.get("uncountedTerminatedPods") or {}).values()
    ):
        return False
    active = [pod for pod in pods if not is_ended(pod)]
    if have_restarted(active, int(spec.get("backoffLimit", DEFAULT_BACKOFF_LIMIT))):
        return False
    is_counted = status.get("active", 0) == len(active) and status.get("ready", 0) == sum(
        map(is_ready, active)
    )
    if spec.get("suspend"):
        return is_counted and not active and SUSPENDED in conditions
    return is_counted and "startTime" in status and len(active) == _due(spec, status, len(active))


def _due(spec: Json, status: Json, active: int) -> int:
    """Return how many pods the Job should have."""
    parallelism, succeeded = int(spec.get("parallelism", 1)), int(status.get("succeeded", 0))
    if "completions" not in spec:
        return active if succeeded else parallelism
    done = succeeded
    if spec.get("completionMode") == "Indexed":
        done = _count(status.get("completedIndexes", "")) + _count(status.get("failedIndexes", ""))
    return min(parallelism, int(spec["completions"]) - done)


def _count(indexes: str) -> int:
    """Return 4 for `0,2-4`."""
    bounds = [part.split("-") for part in indexes.split(",") if part]
    return sum(int(each[-1]) - int(each[0]) + 1 for each in bounds)


class JobSubject:
    resource = JOBS

    def identity(self, pod: Json) -> Identity:
        index = _labels(pod).get(INDEX_LABEL)
        return "job", ANY if index is None else int(index)

    def is_settled(self, namespace: Namespace, job: Json) -> bool:
        return is_job_settled(namespace, job)

    def verdict(self, job: Json) -> str:
        return verdict_by(conditions_of(job), "Complete")


# Kubeflow


class TrainingSubject:
    """TFJob and PyTorchJob."""

    def __init__(self, resource: Resource, replicas: str) -> None:
        self.resource = resource
        self._replicas = replicas

    def identity(self, pod: Json) -> Identity:
        labels = _labels(pod)
        return labels["training.kubeflow.org/replica-type"], int(
            labels["training.kubeflow.org/replica-index"]
        )

    def is_settled(self, namespace: Namespace, job: Json) -> bool:
        verdict = self.verdict(job)
        pods = owned_by(namespace, job)
        if any(is_deleting(pod) for pod in pods):
            return False
        if verdict is SUSPENDED:
            return not pods
        if verdict is not ACTIVE:
            policy = job["spec"].get("runPolicy", {}).get("cleanPodPolicy", "None")
            left = [pod for pod in pods if policy == "All" or (policy == "Running" and not is_ended(pod))]
            return not left
        limit = job["spec"].get("runPolicy", {}).get("backoffLimit")
        if limit is not None and have_restarted(pods, limit):
            return False
        statuses = job.get("status", {}).get("replicaStatuses") or {}
        shown = {
            role.lower(): tuple(status.get(key, 0) for key in ("active", "succeeded", "failed"))
            for role, status in statuses.items()
        }
        counted: dict[str, Counter[str]] = {role: Counter() for role in shown}
        for pod in pods:
            counted.setdefault(self.identity(pod)[0], Counter())[phase_of(pod)] += 1
        found = {role: (each["Running"], each[SUCCEEDED], each[FAILED]) for role, each in counted.items()}
        wanted = sum(int(each.get("replicas", 1)) for each in job["spec"][self._replicas].values())
        return found == shown and len(pods) == wanted

    def verdict(self, job: Json) -> str:
        return verdict_by(conditions_of(job), SUCCEEDED)


class MpiSubject:
    """MPIJob of the mpi-operator, whose launcher is a Job."""

    resource = MPIJOBS

    def identity(self, pod: Json) -> Identity:
        labels = _labels(pod)
        role = labels["training.kubeflow.org/job-role"]
        return role, int(labels.get("training.kubeflow.org/replica-index", 0))

    def is_settled(self, namespace: Namespace, job: Json) -> bool:
        verdict = self.verdict(job)
        launchers = namespace.of(JOBS.plural)
        if not all(is_job_settled(namespace, each) for each in launchers):
            return False
        if any(is_deleting(pod) for pod in namespace.pods):
            return False
        workers = owned_by(namespace, job)
        if verdict is SUSPENDED:
            return not workers
        is_finished = "completionTime" in job.get("status", {})
        if is_finished:
            policy = job["spec"].get("runPolicy", {}).get("cleanPodPolicy", "None")
            return not [
                pod for pod in workers if policy == "All" or (policy == "Running" and not is_ended(pod))
            ]
        ended = any(conditions_of(each) & {"Complete", "Failed"} for each in launchers)
        status = (job.get("status", {}).get("replicaStatuses") or {}).get("Worker", {})
        phases = Counter(phase_of(pod) for pod in workers)
        shown = tuple(status.get(key, 0) for key in ("active", "succeeded", "failed"))
        wanted = int(job["spec"]["mpiReplicaSpecs"].get("Worker", {}).get("replicas", 0))
        is_counted = shown == (phases["Running"], phases[SUCCEEDED], phases[FAILED])
        return bool(launchers) and not ended and is_counted and len(workers) == wanted

    def verdict(self, job: Json) -> str:
        return verdict_by(conditions_of(job), SUCCEEDED)


# JobSet


class JobSetSubject:
    resource = JOBSETS

    def identity(self, pod: Json) -> Identity:
        labels = _labels(pod)
        role = labels["jobset.sigs.k8s.io/replicatedjob-name"]
        first, index = MAX_PODS_PER_JOB * int(labels["jobset.sigs.k8s.io/job-index"]), labels.get(INDEX_LABEL)
        return role, ANY - first if index is None else first + int(index)

    def is_settled(self, namespace: Namespace, job: Json) -> bool:
        children = namespace.of(JOBS.plural)
        if any(is_deleting(each) for each in (*children, *namespace.pods)):
            return False
        if not all(is_job_settled(namespace, each) for each in children):
            return False
        status = job.get("status", {})
        verdict = self.verdict(job)
        if verdict in (SUCCEEDED, FAILED):
            return all(conditions_of(each) & {"Complete", "Failed"} for each in children)
        attempt = str(status.get("restarts", 0))
        is_current = all(
            _labels(each).get("jobset.sigs.k8s.io/restart-attempt") == attempt for each in children
        )
        failed = any("Failed" in conditions_of(each) for each in children)
        statuses = {each["name"]: each for each in status.get("replicatedJobsStatus") or ()}
        if not (is_current and children and not failed and self._are_counted(children, statuses)):
            return False
        created = Counter(map(_replicated_job, children))
        due = _due_jobs(job["spec"], statuses)
        return verdict is SUSPENDED or all(created[name] == count for name, count in due.items())

    @staticmethod
    def _are_counted(children: list[Json], statuses: dict[str, Json]) -> bool:
        counted: dict[str, Counter[str]] = {name: Counter() for name in statuses}
        for child in children:
            counts, status = counted.setdefault(_replicated_job(child), Counter()), child.get("status", {})
            counts["succeeded"] += "Complete" in conditions_of(child)
            counts["active"] += bool(status.get("active"))
            counts["ready"] += not conditions_of(child) & {"Complete", "Failed"} and (
                status.get("succeeded", 0) + status.get("ready", 0) >= _pods_at_a_time(child["spec"])
            )
        return all(
            each[key] == counted[name][key]
            for name, each in statuses.items()
            for key in ("succeeded", "active", "ready")
        )

    def verdict(self, job: Json) -> str:
        return verdict_by(conditions_of(job), "Completed")


def _replicated_job(child: Json) -> str:
    return str(_labels(child)["jobset.sigs.k8s.io/replicatedjob-name"])


def _pods_at_a_time(spec: Json) -> int:
    parallelism = int(spec.get("parallelism", 1))
    return min(parallelism, int(spec.get("completions", parallelism)))


def _due_jobs(spec: Json, statuses: dict[str, Json]) -> dict[str, int]:
    """Return the number of Jobs of each replicated job whose turn has come in an active JobSet."""
    replicas = {each["name"]: int(each.get("replicas", 1)) for each in spec["replicatedJobs"]}

    def has_reached(name: str, condition: str) -> bool:
        status = statuses.get(name, {})
        counted = ("succeeded",) if condition == "Complete" else ("succeeded", "ready", "failed")
        return sum(int(status.get(key, 0)) for key in counted) == replicas[name]

    is_in_order = spec.get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder"
    due = {}
    for each in spec["replicatedJobs"]:
        if all(has_reached(other["name"], other["status"]) for other in each.get("dependsOn") or ()):
            due[each["name"]] = replicas[each["name"]]
        if is_in_order and not has_reached(each["name"], "Ready"):
            break
    return due


MAX_PODS_PER_JOB: Final = 10
"""A pod of a JobSet has the index of its Job times this number plus its completion index."""

ORIGINALS: Final[dict[str, Callable[[], Subject]]] = {
    "Job": JobSubject,
    "TFJob": lambda: TrainingSubject(TFJOBS, "tfReplicaSpecs"),
    "PyTorchJob": lambda: TrainingSubject(PYTORCHJOBS, "pytorchReplicaSpecs"),
    "MPIJob": MpiSubject,
    "JobSet": JobSetSubject,
}
